"""Disk space of the packages of a virtual environment.

    python -m venv /tmp/empty && /tmp/empty/bin/pip install dist/*.whl
    python benchmarks/installed_size.py /tmp/empty

Each line has the space that the files of a package take on disk, in MB, with the share of compiled bytecode that pip
adds. pip and setuptools are left out: they come with every environment.
"""

import argparse
from importlib import metadata
from pathlib import Path

LEFT_OUT = {"pip", "setuptools"}


def main() -> None:
    """Print one line per package, largest first, and the total."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    (packages,) = parser.parse_args().environment.glob("lib/python3*/site-packages")
    rows = [measure(package) for package in metadata.distributions(path=[str(packages)])]
    rows = sorted((row for row in rows if row[2] not in LEFT_OUT), reverse=True)
    for size, bytecode, name in rows:
        print(f"{size / 1e6:7.1f} MB  {bytecode / 1e6:5.1f} MB bytecode  {name}")
    print(f"{sum(size for size, *_ in rows) / 1e6:7.1f} MB  {len(rows)} packages")


def measure(package: metadata.Distribution) -> tuple[int, int, str]:
    """Bytes on disk, those of bytecode, and the name of a package."""
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    sizes = {file: 512 * file.stat().st_blocks for file in files if file.is_file()}
    return sum(sizes.values()), sum(size for file, size in sizes.items() if file.suffix == ".pyc"), package.name


if __name__ == "__main__":
    main()
