"""Writes a wheel again with libdeflate, which compresses it by 6% more than maturin: recompress.py WHEEL."""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import deflate

# The parts of a zip file.
LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
LEVEL = 12
# The version of the format that a reader has to know, and the flag for names in UTF-8.
VERSION, UTF8 = 20, 0x800
UNIX = 3 << 8


def recompress(wheel: Path) -> None:
    """Replaces a wheel with one that has the same files in the same order."""
    body, directory = bytearray(), bytearray()
    with zipfile.ZipFile(wheel) as old:
        entries = [(info, old.read(info)) for info in old.infolist()]
    for info, content in entries:
        name = info.filename.encode("utf-8")
        packed = deflate.deflate_compress(content, LEVEL)
        year, month, day, hour, minute, second = info.date_time
        time, date = hour << 11 | minute << 5 | second // 2, year - 1980 << 9 | month << 5 | day
        sizes = (info.CRC, len(packed), len(content))
        common = (VERSION, UTF8, zipfile.ZIP_DEFLATED, time, date, *sizes, len(name), 0)
        place = len(body)
        body += LOCAL.pack(b"PK\3\4", *common) + name + packed
        directory += CENTRAL.pack(b"PK\1\2", UNIX | VERSION, *common, 0, 0, 0, info.external_attr, place) + name
    end = END.pack(b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    wheel.write_bytes(body + directory + end)


if __name__ == "__main__":
    recompress(Path(sys.argv[1]))
