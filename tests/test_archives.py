"""Archives that claim gigabytes, listed and read in a separate process whose memory is measured."""

import bz2
import gzip
import io
import json
import lzma
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from hostile import encode, picture
from lookalike.collection import adding
from lookalike.errors import ImageError
from lookalike.images import workers
from lookalike.images.files import Limits
from lookalike.images.sources import walk

GIB = 2**30
MIB = 2**20

MEASURE = """
import json, os, resource, sys
from lookalike.errors import ImageError
from lookalike.images.files import Limits
from lookalike.images.sources import locate, walk

def peaks():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return [int(lines[key].split()[0]) * 1024 for key in ("VmPeak", "VmHWM")]

def measure(path, limits):
    before = peaks()
    most = before[0] + 3 * 2**30  # for a machine whose memory is needed elsewhere, should a test fail
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    entries, reasons = {}, []
    for entry in walk([path], on_skip=lambda path, reason: reasons.append(reason), limits=limits):
        entries[entry.path] = entry
        if len(entries) < 100:
            try:
                entry.read(limits)
            except ImageError as error:
                reasons.append(str(error))
    if limits == Limits():
        locate(path + "::not-there.jpg")
    grown = [after - start for after, start in zip(peaks(), before)]
    return {"virtual": grown[0], "resident": grown[1], "listed": len(entries), "reasons": reasons}

for path, limits in json.loads(sys.argv[1]):
    if os.fork() == 0:  # each archive is measured alone
        print(json.dumps([os.path.basename(path), measure(path, Limits(**limits))]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, path
"""


def measure(*archives):
    """Return for each archive the memory growth in bytes, the number of listed members, and the reasons for skips."""
    order = [(str(path), limits) for path, limits in archives]
    done = subprocess.run([sys.executable, "-c", MEASURE, json.dumps(order)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


def header(name="a.jpg", kind=tarfile.REGTYPE, size=0, extra=b""):
    """Return a header block of a tar with a valid checksum; `extra` overwrites its end."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[512 - len(extra) :] = extra
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def pad(data):
    return data + bytes(-len(data) % 512)


def pax(kind, records):
    data = b"".join(_record(key, value) for key, value in records)
    return header("pax", kind, len(data)) + pad(data)


def _record(key, value):
    body = f" {key}={value}\n".encode()
    size = len(body) + 1
    while len(str(size)) + len(body) > size:
        size += 1
    return str(size).encode() + body


def write_sparse(path, head, size, tail=b""):
    """Write a file with this head and tail and a hole between them, which uses no disk space."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
        file.seek(0, 2)
        file.write(tail)
    return path


def claim(kind):
    """Return a function that writes a header that claims a gibibyte."""
    return lambda path: write_sparse(path, header("././@LongLink", kind, GIB), GIB + MIB)


def endless_sparse_map(path):
    """Write a member in the old GNU format for sparse files, with a map of 20,000 blocks."""
    places = b"".join(b"%011o\0%011o\0" % (1024 * i, 512) for i in range(1, 22))
    first = header(kind=tarfile.GNUTYPE_SPARSE, extra=b"\1" + b"0" * 11 + b"\0" * 18)
    path.write_bytes(first + pad(places + b"\1") * 20_000)


def sparse_map_in_pax(path):
    path.write_bytes(pax(tarfile.XHDTYPE, [("GNU.sparse.map", ",".join(map(str, range(500_000))))]) + header())


def sparse_map_in_data(path):
    data = pad(b"250000\n" + b"\n".join(b"%d" % i for i in range(500_000)) + b"\n")
    records = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", "a.jpg")]
    path.write_bytes(pax(tarfile.XHDTYPE, records) + header(size=len(data)) + data)


def many_global_headers(path):
    """Write headers that are each allowed but together too large, because a TarFile keeps them all."""
    path.write_bytes(
        b"".join(
            pax(tarfile.XGLTYPE, [(f"key{i}.{j}", "x" * 10**5) for j in range(9)]) + header(f"{i}.txt")
            for i in range(50)
        )
    )


def chained_long_names(path):
    name = header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 900_000) + pad(b"x" * 900_000)
    path.write_bytes(name * 50 + header())


def size_beyond_the_end(path):
    path.write_bytes(header(size=500 * MIB) + bytes(10_000))


def zip_directory(path):
    """Write a directory of a gibibyte, most of it a hole."""
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, GIB, 0, 0)
    write_sparse(path, b"PK\1\2", GIB, end)


def zip_size_that_lies(path):
    """Write a member that claims 1,000 bytes and unpacks to 24 MiB."""
    content = bz2.compress(bytes(24 * MIB))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.jpg", b"x")
    data = path.read_bytes()
    start, directory = data.index(b"a.jpg") + 5, bytearray(data[data.index(b"PK\1\2") :])
    directory[20:28] = struct.pack("<2L", len(content), 1000)
    offset = start + len(content)
    directory[-6:-2] = struct.pack("<L", offset)
    path.write_bytes(data[:start] + content + directory)


def xz_dictionary(path):
    """Write a tar whose decoder needs a gibibyte."""
    data = bytearray(lzma.compress(header() + bytes(1024)))
    size = (data[12] + 1) * 4
    data[16] = 36  # the size of the dictionary, 2 << (36 / 2 + 11)
    data[12 + size - 4 : 12 + size] = struct.pack("<L", zlib.crc32(data[12 : 12 + size - 4]))
    path.write_bytes(data)


HOSTILE = {
    "long-name.tar": (claim(tarfile.GNUTYPE_LONGNAME), "it has a header of more than 1048576 bytes"),
    "long-link.tar": (claim(tarfile.GNUTYPE_LONGLINK), "it has a header of more than 1048576 bytes"),
    "pax.tar": (claim(tarfile.XHDTYPE), "it has a header of more than 1048576 bytes"),
    "global-pax.tar": (claim(tarfile.XGLTYPE), "it has a header of more than 1048576 bytes"),
    "solaris-pax.tar": (claim(tarfile.SOLARIS_XHDTYPE), "it has a header of more than 1048576 bytes"),
    "sparse.tar": (endless_sparse_map, "it has a header of more than 1048576 bytes"),
    "sparse-pax.tar": (sparse_map_in_pax, "it has a header of more than 1048576 bytes"),
    "sparse-data.tar": (sparse_map_in_data, "it has a header of more than 1048576 bytes"),
    "global-headers.tar": (many_global_headers, None),
    "chained-names.tar": (chained_long_names, "it has a header of more than 1048576 bytes"),
    "beyond-the-end.tar": (size_beyond_the_end, "its archive is truncated"),
    "directory.zip": (zip_directory, "its directory is larger than 44739242 bytes; split the archive"),
    "lies.zip": (
        zip_size_that_lies,
        "it uses zip compression method 12; only 0 (stored) and 8 (deflate) are supported",
    ),
    "dictionary.tar.xz": (xz_dictionary, "it is a damaged archive (Memory usage limit exceeded)"),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, (write, _) in HOSTILE.items():
        write(folder / name)
    return measure(*((folder / name, {}) for name in HOSTILE))


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_claims_gigabytes_needs_little_memory(measured, name):
    found, reason = measured[name], HOSTILE[name][1]
    assert found["virtual"] < 32 * MIB, found
    assert found["resident"] < 32 * MIB, found
    assert reason is None or reason in found["reasons"]


def write_many_tar(path, count):
    path.write_bytes(b"".join(header(f"{i}.jpg") for i in range(count)))
    return path


def write_many_zip(path, count):
    """Write a zip that consists almost only of its directory."""
    names = [b"%d.jpg" % i for i in range(count)]
    fields = (20, 3, 20, 0, 0, 0, 0, 0, 0, 10**5, 10**5)
    directory = b"".join(
        struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", *fields, len(name), 0, 0, 0, 0, 0, 0) + name for name in names
    )
    path.write_bytes(directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, len(directory), 0, 0))
    return path


def test_the_list_of_members_stays_within_its_memory_limit(tmp_path):
    limits = {"max_listing_bytes": 8 * MIB}
    tar = write_many_tar(tmp_path / "a.tar", 20_000)
    zipped = write_many_zip(tmp_path / "a.zip", 6_000)
    found = measure((tar, limits), (zipped, limits))
    assert 10_000 < found["a.tar"]["listed"] < 20_000
    (reason,) = [reason for reason in found["a.tar"]["reasons"] if "list of its members" in reason]
    assert f"only the first {found['a.tar']['listed']} were listed; split the archive" in reason
    assert found["a.zip"]["listed"] == 6_000
    for archive in found.values():
        assert archive["resident"] < 12 * MIB  # including Python's own allocations


def test_a_zip_with_too_many_members_is_rejected_before_its_directory_is_read(tmp_path):
    path = write_many_zip(tmp_path / "a.zip", 6_000)
    skipped = {}
    assert list(walk([path], on_skip=skipped.__setitem__, limits=Limits(max_listing_bytes=4 * MIB))) == []
    assert skipped == {str(path): "its directory is larger than 174762 bytes; split the archive"}


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_members_of_negative_size_and_members_that_overlap_end_the_listing(tmp_path, compress):
    first, negative = header("1.jpg"), header("2.jpg", size=-1024)
    negative_pax = pax(tarfile.XHDTYPE, [("size", "-1024")]) + header("2.jpg", size=512) + bytes(512)
    overlapping = pax(tarfile.XHDTYPE, [("GNU.sparse.realsize", "1024")]) + header("2.jpg", size=512) + bytes(2048)
    for name, content in {"negative": negative, "pax": negative_pax, "overlapping": overlapping}.items():
        path, skipped = tmp_path / f"{name}.tar", {}
        path.write_bytes(compress(first + content + bytes(1024)))
        listed = [entry.path for entry in walk([path], on_skip=skipped.__setitem__)]
        assert listed[0] == f"{path}::1.jpg"
        if name != "overlapping":
            assert (len(listed), skipped) == (1, {str(path): "it is a damaged archive (a member has a negative size)"})
        elif compress is not bytes:
            assert skipped == {str(path): "it is a damaged archive (members overlap)"}


def test_an_xz_file_of_several_streams_with_padding_is_read_to_its_end(tmp_path):
    content = [header("1.jpg", size=700) + pad(b"1" * 700), header("2.jpg", size=700) + pad(b"2" * 700) + bytes(1024)]
    path = tmp_path / "a.tar.xz"
    path.write_bytes(bytes(8).join(map(lzma.compress, content)) + bytes(4))
    assert [entry.read() for entry in walk([path], on_skip=pytest.fail)] == [b"1" * 700, b"2" * 700]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_member_whose_decoder_has_no_limit_is_rejected(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("a.jpg", b"x" * 1000)
    (entry,) = walk([tmp_path / "a.zip"], on_skip=pytest.fail)
    with pytest.raises(ImageError, match=f"it uses zip compression method {method};"):
        entry.read()


def test_listing_a_compressed_tar_is_limited_by_the_bytes_in_memory(collection, tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    listed = n_bytes = done = 0
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for i in range(300):
            data = encode(picture(random, (20, 20)), "JPEG")
            info = tarfile.TarInfo(f"{i}.jpg")
            info.size = len(data)
            n_bytes += len(data)
            archive.addfile(info, io.BytesIO(data))

    def count(*args, **options):
        nonlocal listed
        for entry in walk(*args, **options):
            listed += 1
            assert listed - done < 150  # queued, being looked up, being read, or waiting for feature extraction
            yield entry

    def progress(what, count, total):
        nonlocal done
        done = count

    monkeypatch.setattr(adding, "walk", count)
    monkeypatch.setattr(adding, "CARRY_BYTES", n_bytes // 30)
    monkeypatch.setattr(workers, "CARRY_BYTES", n_bytes // 30)
    report = collection.add(tmp_path / "a.tar.gz", recipes=["color"], workers=1, progress=progress)
    assert (report.added, report.skipped) == (300, {})
