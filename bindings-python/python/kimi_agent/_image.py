"""Images as content parts. Loaded when a program makes one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _native
from ._errors import InvalidOption
from ._loop import called

if TYPE_CHECKING:
    from ._option_types import StrPath
    from ._wire import ImageURLPart

__all__ = ["image"]


def image(source: StrPath | bytes | bytearray | memoryview) -> ImageURLPart:
    r"""Makes a content part from an image: for a prompt, for `steer()`, or as the result of a tool.

    The image travels inside the message as a `data:` URL. The first bytes decide about its media type, not the
    name of the file: PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and HEIC are recognized. A model may accept fewer types.

    Args:
        source: The path of an image file, or the file's bytes. A file is read at once.

    Returns:
        The part, whose `image_url.url` is the `data:` URL.

    Raises:
        InvalidOption: There is no such file, it cannot be read, is a directory or empty, or is not an image of a known
            type.

    >>> turn = session.prompt(["What is wrong here?", image("screenshot.png")])
    >>> image(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;").image_url.url
    'data:image/gif;base64,R0lGODlhAQABAAAAADs='
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return called(_native.image_bytes, bytes(source))
    if isinstance(source, (str, os.PathLike)):
        return called(_native.image_file, os.fspath(source))
    raise InvalidOption(f"invalid option `image`: expected the path of a file or its bytes, got {source!r}", "image")
