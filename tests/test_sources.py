import bz2
import gzip
import io
import lzma
import os
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile import encode, picture
from lookalike.errors import ImageError, SourceError
from lookalike.images import archives, sources
from lookalike.images.files import Limits
from lookalike.images.sources import OUTSIDE, RAW_SUFFIXES, SUFFIXES, Entry, locate, walk

JPEG = encode(picture(np.random.default_rng(0)), "JPEG")


class Skipped(dict):
    """Collect the paths that `walk` skips."""

    def __call__(self, path, reason):
        assert path not in self
        assert reason
        self[path] = reason


@pytest.fixture
def skipped():
    return Skipped()


def write(path, data=JPEG):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(entries, root):
    return [os.path.relpath(entry.path, root) for entry in entries]


def write_tar(path, members, mode="w", **extra):
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in extra.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_zip(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


MAKERS = {
    "a.tar": lambda path, members: write_tar(path, members, "w"),
    "a.tar.gz": lambda path, members: write_tar(path, members, "w:gz"),
    "a.tgz": lambda path, members: write_tar(path, members, "w:gz"),
    "a.tar.bz2": lambda path, members: write_tar(path, members, "w:bz2"),
    "a.tar.xz": lambda path, members: write_tar(path, members, "w:xz"),
    "a.zip": write_zip,
    "stored.ZIP": lambda path, members: write_zip(path, members, zipfile.ZIP_STORED),
}


def test_a_folder_is_walked_in_order_of_names(tmp_path, skipped):
    for name in ("b.jpg", "a.PNG", "z/1.jpeg", "c/d/e.webp", "c/a.gif", "10.tif", "9.bmp"):
        write(tmp_path / name)
    expected = ["10.tif", "9.bmp", "a.PNG", "b.jpg", "c/a.gif", "c/d/e.webp", "z/1.jpeg"]
    assert names(walk([tmp_path], on_skip=skipped), tmp_path) == expected
    assert names(walk([str(tmp_path)], on_skip=skipped), tmp_path) == expected
    assert skipped == {}


def test_files_of_other_types_are_reported(tmp_path, skipped, monkeypatch):
    monkeypatch.setattr(sources, "EXTRAS", {"raw": ("no_such_module", RAW_SUFFIXES)})
    for name in ("a.jpg", "b.mp4", "c/d", "c/e.CR2", "c/a.zip", "f.xmp", "Thumbs.db", ".g.mp4", ".h/i.mp4"):
        write(tmp_path / name)
    members = {"j.jpg": b"j", "k/l.pdf": b"l", "__MACOSX/j.jpg": b"x", "k/.m.pdf": b"m", "k/": b""}
    write_zip(tmp_path / "c/a.zip", members)
    others = []
    assert names(walk([tmp_path], on_skip=skipped, on_other=others.append), tmp_path) == ["a.jpg"]
    assert sorted(others) == [f"{tmp_path}/{name}" for name in ("b.mp4", "c/a.zip", "c/d", "c/e.CR2")]
    for source, expected in [("c/a.zip", ["c/a.zip::k/l.pdf"]), ("*.*", ["b.mp4"]), ("c/e.CR2", [])]:
        others.clear()
        list(walk([tmp_path / source], on_skip=skipped, on_other=others.append))
        assert others == [f"{tmp_path}/{name}" for name in expected], source
    assert skipped == {}


def test_only_visible_pictures_of_a_folder_are_listed(tmp_path, skipped):
    for name in ("a.jpg", "b.txt", "c", "d.tar", ".e.jpg", ".f/g.jpg", "h.jpg.part"):
        write(tmp_path / name)
    assert names(walk([tmp_path], on_skip=skipped), tmp_path) == ["a.jpg"]
    assert names(walk([tmp_path / ".f"], on_skip=skipped), tmp_path) == [".f/g.jpg"]
    assert skipped == {}


def test_an_entry_has_size_and_time_of_the_file_and_reads_its_bytes(tmp_path, skipped):
    path = write(tmp_path / "a.jpg")
    (entry,) = walk([path], on_skip=skipped)
    assert entry == Entry(str(path), len(JPEG), path.stat().st_mtime_ns)
    assert entry.read() == JPEG
    assert pickle.loads(pickle.dumps(entry)).read() == JPEG


def test_an_explicit_file_is_listed_whatever_its_name(tmp_path, skipped):
    path = write(tmp_path / ".picture-without-suffix")
    assert [entry.path for entry in walk([path], on_skip=skipped)] == [str(path)]


def test_relative_sources_become_absolute(tmp_path, skipped, monkeypatch):
    write(tmp_path / "a/b.jpg")
    monkeypatch.chdir(tmp_path / "a")
    for source in (".", "b.jpg", "../a", "*.jpg", "./b.jpg"):
        assert [entry.path for entry in walk([source], on_skip=skipped)] == [str(tmp_path / "a/b.jpg")], source


def test_unusual_file_names_are_accepted(tmp_path, skipped):
    odd = ["späße 🐟.jpg", "new\nline.jpg", os.fsdecode(b"\xff\xfe.jpg"), "-rf.jpg", " .jpg", "a::b.jpg", "[x]*.jpg"]
    for name in odd:
        write(tmp_path / name)
    entries = list(walk([tmp_path], on_skip=skipped))
    assert names(entries, tmp_path) == sorted(odd)
    assert {entry.read() for entry in entries} == {JPEG}
    for entry in entries:
        assert list(walk([entry.path], on_skip=skipped)) == [entry]
        assert locate(entry.path) == entry
    assert skipped == {}


def test_links_are_followed_and_every_folder_is_visited_once(tmp_path, skipped):
    write(tmp_path / "real/a.jpg")
    write(tmp_path / "elsewhere/b.jpg")
    root = tmp_path / "real"
    (root / "loop").symlink_to(root)
    (root / "aaa-link").symlink_to(tmp_path / "elsewhere")
    (root / "zzz-link").symlink_to(tmp_path / "elsewhere")
    (root / "c.jpg").symlink_to(tmp_path / "elsewhere/b.jpg")
    (tmp_path / "elsewhere/back").symlink_to(root)
    assert names(walk([root], on_skip=skipped), root) == ["a.jpg", "c.jpg", "aaa-link/b.jpg"]
    assert skipped == {}


def test_links_are_followed_only_into_the_given_folders(tmp_path, skipped):
    root, other = tmp_path / "root", tmp_path / "other"
    for file in (root / "a.jpg", root / "b/b.jpg", other / "c.jpg", tmp_path / "root-2/d.jpg"):
        write(file)
    (root / "in").symlink_to(root / "b")
    for name, target in {"out": other, "out.jpg": other / "c.jpg", "beside": tmp_path / "root-2"}.items():
        (root / name).symlink_to(target)
    (tmp_path / "way").symlink_to(other)
    (tmp_path / "list.txt").write_text(f"{other}/c.jpg\n{tmp_path}/way/c.jpg\n")
    sources = [root, f"{root}/out/*.jpg", tmp_path / "list.txt"]
    within = [str(root), str(tmp_path / "list.txt")]
    found = names(walk(sources, on_skip=skipped, within=within), tmp_path)
    assert found == ["root/a.jpg", "root/b/b.jpg", "other/c.jpg"]
    left_out = ("root/out", "root/out.jpg", "root/beside", "root/out/c.jpg", "way/c.jpg")
    assert skipped == {str(tmp_path / path): OUTSIDE for path in left_out}


def test_a_real_path_is_preferred_to_a_link(tmp_path, skipped):
    write(tmp_path / "z/b.jpg")
    (tmp_path / "a").symlink_to(tmp_path / "z")
    assert names(walk([tmp_path], on_skip=skipped), tmp_path) == ["z/b.jpg"]


def test_many_links_between_folders_do_not_explode(tmp_path, skipped):
    for i in range(12):
        write(tmp_path / f"{i}/a.jpg")
        for j in range(12):
            (tmp_path / f"{i}/to-{j}").symlink_to(tmp_path / str(j))
    assert len(list(walk([tmp_path], on_skip=skipped))) == 12  # there are 12 ** 12 paths, far too many to walk
    assert len(list(walk([f"{tmp_path}/**/*.jpg"], on_skip=skipped))) == 12


def test_a_very_deep_folder_is_walked(tmp_path, skipped):
    deep = tmp_path
    for _ in range(400):
        deep /= "d"
    write(deep / "a.jpg")
    assert len(list(walk([tmp_path], on_skip=skipped))) == 1


def test_a_path_that_is_not_a_file_is_reported(tmp_path, skipped):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "dangling.jpg").symlink_to("nowhere")
    (tmp_path / "itself.jpg").symlink_to("itself.jpg")
    write(tmp_path / "good.jpg")
    assert names(walk([tmp_path], on_skip=skipped), tmp_path) == ["good.jpg"]
    reasons = {Path(path).name: reason for path, reason in skipped.items()}
    assert reasons == {
        "pipe.jpg": "it is not a regular file",
        "dangling.jpg": "it is a broken link",
        "itself.jpg": "it is a link that points to itself",
    }
    for name in reasons:
        skipped.clear()
        assert list(walk([tmp_path / name], on_skip=skipped)) == []
        assert list(skipped) == [str(tmp_path / name)]


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path, skipped, monkeypatch):
    write(tmp_path / "a.jpg")
    write(tmp_path / "secret/b.jpg")
    write(tmp_path / "z.jpg")
    scandir = os.scandir

    def forbid(path):
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", forbid)
    assert names(walk([tmp_path], on_skip=skipped), tmp_path) == ["a.jpg", "z.jpg"]
    assert skipped == {str(tmp_path / "secret"): "permission denied"}


def test_a_missing_source_raises_an_error_immediately(tmp_path, skipped):
    write(tmp_path / "a.jpg")
    for source in (
        tmp_path / "no",
        tmp_path / "a.jpg/b",
        f"{tmp_path}/*.png",
        tmp_path / "no.tar::a.jpg",
        "zero\0.jpg",
    ):
        with pytest.raises(SourceError, match=r"does not exist|No picture"):
            walk([tmp_path, source], on_skip=skipped)


def test_a_file_that_vanishes_or_is_replaced_is_rejected_when_read(tmp_path, skipped):
    first, second = write(tmp_path / "a.jpg"), write(tmp_path / "b.jpg")
    entries = list(walk([tmp_path], on_skip=skipped))
    first.unlink()
    second.unlink()
    os.mkfifo(second)
    for entry, reason in zip(entries, ("it no longer exists", "it is not a regular file"), strict=True):
        with pytest.raises(ImageError, match=reason):
            entry.read()


def test_patterns_match_as_in_a_shell(tmp_path, skipped):
    for name in ("a.jpg", "b.png", "x/c.jpg", "x/y/d.jpg", ".h/e.jpg", "x/notes.txt", "x/a1.jpg", "x/a2.jpg"):
        write(tmp_path / name)
    for pattern, expected in {
        "*.jpg": ["a.jpg"],
        "*": ["a.jpg", "b.png"],
        "*/*": ["x/a1.jpg", "x/a2.jpg", "x/c.jpg"],
        "**/*.jpg": ["a.jpg", "x/a1.jpg", "x/a2.jpg", "x/c.jpg", "x/y/d.jpg"],
        "**": ["a.jpg", "b.png", "x/a1.jpg", "x/a2.jpg", "x/c.jpg", "x/y/d.jpg"],
        "x/**/d.jpg": ["x/y/d.jpg"],
        "x/a[2-9].jpg": ["x/a2.jpg"],
        "?.png": ["b.png"],
        ".h/*.jpg": [".h/e.jpg"],
        "**/y/**/*.jpg": ["x/y/d.jpg"],
    }.items():
        assert names(walk([f"{tmp_path}/{pattern}"], on_skip=skipped), tmp_path) == expected, pattern
    assert skipped == {}


def test_a_pattern_can_match_archives(tmp_path, skipped):
    write_zip(tmp_path / "a.zip", {"1.jpg": JPEG})
    write_tar(tmp_path / "b.tar", {"2.jpg": JPEG})
    assert names(walk([f"{tmp_path}/*"], on_skip=skipped), tmp_path) == ["a.zip::1.jpg", "b.tar::2.jpg"]


def test_a_list_names_files_folders_and_archives(tmp_path, skipped):
    write(tmp_path / "x/a.jpg")
    write(tmp_path / "y/b.jpg")
    archive = write_zip(tmp_path / "c.zip", {"d.jpg": JPEG, "e.jpg": JPEG})
    odd = write(tmp_path / os.fsdecode(b"\xff.jpg"))
    lines = [
        b"\xef\xbb\xbfx/a.jpg",
        b"",
        b"y",
        b"c.zip",
        b"missing.jpg",
        os.fsencode(odd),
        b"c.zip::e.jpg",
        b"other.txt",
    ]
    write(tmp_path / "other.txt", b"x/a.jpg\n")
    listing = write(tmp_path / "list.txt", b"\r\n".join(lines))
    found = names(walk([listing], on_skip=skipped), tmp_path)
    expected = [
        "x/a.jpg",
        "y/b.jpg",
        "c.zip::d.jpg",
        "c.zip::e.jpg",
        os.fsdecode(b"\xff.jpg"),
        "c.zip::e.jpg",
        "other.txt",
    ]
    assert found == expected
    assert skipped == {str(tmp_path / "missing.jpg"): "it does not exist"}
    assert str(archive) not in skipped


@pytest.mark.parametrize("name", MAKERS)
def test_archives_are_read_in_place(tmp_path, skipped, name):
    members = {f"d/{i}.jpg": encode(picture(np.random.default_rng(i), (30, 20)), "JPEG") for i in range(5)}
    junk = {"notes.txt": b"no", "inner.zip": b"PK", "d/.hidden.jpg": JPEG, "__MACOSX/d/0.jpg": JPEG, "./e.jpg": JPEG}
    path = MAKERS[name](tmp_path / name, members | junk)
    entries = list(walk([path], on_skip=skipped))
    assert [entry.path for entry in entries] == [f"{path}::{inner}" for inner in [*members, "e.jpg"]]
    for entry in entries:
        sent = pickle.loads(pickle.dumps(entry))
        assert sent.read() == (members | {"e.jpg": JPEG})[entry.path.partition("::")[2]]
        assert (entry.size, entry.mtime_ns) == (len(entry.read()), path.stat().st_mtime_ns)
        assert locate(entry.path).read() == entry.read()
        assert list(walk([entry.path], on_skip=skipped)) == [entry]
    assert skipped == {}
    assert sorted(tmp_path.iterdir()) == [path]


def test_locate_returns_an_entry_or_none(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"b.jpg": JPEG})
    assert locate(tmp_path) is None
    assert locate(tmp_path / "no.jpg") is None
    assert locate(f"{path}::no.jpg") is None
    assert locate(f"{tmp_path}/no.tar::b.jpg") is None
    assert locate(Path(f"{path}::b.jpg")).read() == JPEG
    assert locate(path).path == str(path)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
def test_names_in_an_archive_cannot_lead_outside(tmp_path, skipped, name):
    outside = write(tmp_path / "outside.jpg", b"outside")
    (tmp_path / "in").mkdir()
    path = MAKERS[name](tmp_path / "in" / name, {"/etc/a.jpg": b"1", "../../b.jpg": b"2", "../outside.jpg": b"3"})
    found = {entry.path.partition("::")[2]: entry.read() for entry in walk([path], on_skip=skipped)}
    assert found == {"etc/a.jpg": b"1", "../../b.jpg": b"2", "../outside.jpg": b"3"}
    assert outside.read_bytes() == b"outside"
    assert skipped == {}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_links_and_devices_in_an_archive_are_reported(tmp_path, skipped, mode):
    path = tmp_path / ("a.tar" if mode == "w" else "a.tgz")
    with tarfile.open(path, mode) as archive:
        for name, kind in (("sym", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("device", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(f"{name}.jpg")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        folder = tarfile.TarInfo("folder.jpg")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        info = tarfile.TarInfo("good.jpg")
        info.size = len(JPEG)
        archive.addfile(info, io.BytesIO(JPEG))
    assert names(walk([path], on_skip=skipped), path.parent) == [f"{path.name}::good.jpg"]
    assert set(skipped) == {f"{path}::{name}.jpg" for name in ("sym", "hard", "device")}


def test_a_damaged_archive_gives_its_readable_members_and_is_reported(tmp_path, skipped):
    members = {f"{i}.jpg": JPEG for i in range(6)}
    plain = write_tar(tmp_path / "a.tar", members).read_bytes()
    zipped = write_zip(tmp_path / "a.zip", members).read_bytes()
    packed = {".tar.gz": gzip.compress(plain), ".tar.bz2": bz2.compress(plain), ".tar.xz": lzma.compress(plain)}
    step = 512 * (1 + -(-len(JPEG) // 512))
    overwritten = plain[: 3 * step] + b"x" * 512 + plain[3 * step + 512 :]
    damaged = {
        "cut.tar": plain[: 3 * step + 700],
        "overwritten.tar": overwritten,
        "overwritten.tgz": gzip.compress(overwritten),
        "noise.tar": b"noise" * 1000,
        "empty.tar": b"",
        "cut.zip": zipped[: len(zipped) // 2],
        "empty.zip": b"",
    } | {f"cut{suffix}": data[: len(data) // 2] for suffix, data in packed.items()}
    for name, data in damaged.items():
        path = write(tmp_path / name, data)
        skipped.clear()
        entries = list(walk([path], on_skip=skipped))
        assert set(skipped) == {str(path)}, name
        assert skipped[str(path)].startswith("it is a damaged archive (")
        if name.startswith("overwritten"):
            assert len(entries) == 3


def test_a_picture_in_a_truncated_tar_is_rejected_when_it_is_read(tmp_path, skipped):
    data = write_tar(tmp_path / "whole.tar", {"0.jpg": JPEG}).read_bytes()
    path = write(tmp_path / "a.tar", data[:900])
    (entry,) = walk([path], on_skip=skipped)
    with pytest.raises(ImageError, match="truncated"):
        entry.read()


def test_a_changed_archive_is_not_read_at_the_old_offsets(tmp_path, skipped):
    for name in ("a.tar", "a.zip"):
        path = MAKERS[name](tmp_path / name, {"0.jpg": JPEG})
        (entry,) = walk([path], on_skip=skipped)
        os.utime(path, ns=(0, 0))
        with pytest.raises(ImageError, match="changed since it was listed"):
            entry.read()
        path.unlink()
        with pytest.raises(ImageError, match="it no longer exists"):
            entry.read()


def test_a_zip_bomb_is_rejected_by_its_declared_and_its_real_size(tmp_path, skipped):
    path = write_zip(tmp_path / "a.zip", {"bomb.jpg": bytes(5 * 2**20)})
    (entry,) = walk([path], on_skip=skipped)
    assert path.stat().st_size < 10_000
    with pytest.raises(ImageError, match="it has 5242880 bytes; the limit is 1000000"):
        entry.read(Limits(max_bytes=10**6))
    data = path.read_bytes()
    lying = data.replace(struct.pack("<I", 5 * 2**20), struct.pack("<I", 1000))
    path = write(tmp_path / "lying.zip", lying)
    (entry,) = walk([path], on_skip=skipped)
    assert entry.size == 1000
    with pytest.raises(ImageError, match="it is damaged in its archive"):
        entry.read(Limits(max_bytes=10**6))


def test_an_encrypted_member_is_rejected(tmp_path, skipped):
    path = write_zip(tmp_path / "a.zip", {"a.jpg": JPEG})
    data = bytearray(path.read_bytes())
    data[6] |= 1  # the encryption flag, in the local header and in the directory
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(bytes(data))
    (entry,) = walk([path], on_skip=skipped)
    with pytest.raises(ImageError, match=r"^it is encrypted$"):
        entry.read()


def test_a_tar_bomb_is_abandoned_and_reported(tmp_path, skipped, monkeypatch):
    monkeypatch.setattr(archives, "FREE_BYTES", 2**20)
    path = write_tar(tmp_path / "a.tar.gz", {"a.jpg": JPEG, "bomb.jpg": bytes(30 * 2**20), "b.jpg": JPEG}, "w:gz")
    assert len(list(walk([path], on_skip=skipped))) == 1
    assert "unpacks to more than 200 times its size" in skipped[str(path)]


def test_a_huge_header_in_a_compressed_tar_is_not_held_in_memory(tmp_path, skipped):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 50 * 2**20
    path = write(tmp_path / "a.tar.gz", gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(info.size), 1))
    assert list(walk([path], on_skip=skipped)) == []
    assert "a header of more than 1048576 bytes" in skipped[str(path)]


def test_members_above_the_limits_are_reported_and_not_read(tmp_path, skipped):
    path = write_tar(tmp_path / "a.tgz", {"a.jpg": JPEG, "large.jpg": bytes(10**6), "b.jpg": JPEG}, "w:gz")
    found = list(walk([path], on_skip=skipped, limits=Limits(max_bytes=10**5)))
    assert names(found, tmp_path) == ["a.tgz::a.jpg", "a.tgz::b.jpg"]
    assert skipped == {f"{path}::large.jpg": "it has 1000000 bytes; the limit is 100000"}


def test_listing_is_lazy(tmp_path, skipped):
    path = write_tar(tmp_path / "a.tgz", {f"{i}.jpg": JPEG for i in range(50)}, "w:gz")
    entries = walk([tmp_path, path], on_skip=skipped)
    assert next(entries).path == f"{path}::0.jpg"
    entries.close()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_archive_never_raises(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    name = data.draw(st.sampled_from(sorted(MAKERS)))
    path = MAKERS[name](folder / name, {f"{i}.jpg": JPEG[:900] for i in range(3)})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    reports = []
    for entry in walk([path], on_skip=lambda *report: reports.append(report)):
        try:
            assert len(entry.read(Limits(max_bytes=10**6))) <= 10**6
        except ImageError as error:
            reports.append((entry.path, str(error)))
    assert all(reason for _, reason in reports)


def test_suffixes_are_lower_case_with_a_dot():
    assert {".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".heic", ".avif"} <= SUFFIXES
    assert all(suffix == suffix.lower() and suffix[0] == "." for suffix in SUFFIXES)


def test_checksums_of_zip_members_are_checked(tmp_path, skipped):
    path = write_zip(tmp_path / "a.zip", {"a.jpg": JPEG}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(bytes(content))
    (entry,) = walk([path], on_skip=skipped)
    with pytest.raises(ImageError, match="Bad CRC-32"):
        entry.read()
