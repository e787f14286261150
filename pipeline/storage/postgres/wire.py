"""Wire: how values of Remit travel to Postgres and back in its binary format, long lists as one piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

BOOL, BYTES, INT8, TEXT, FLOAT8, TEXTS, INT8S, FLOAT8S, BOOLS = 16, 17, 20, 25, 701, 1009, 1016, 1022, 1000
"""Postgres's own numbers for its types, fixed for all of its versions."""

_int4 = Struct(">i").pack
_int8 = Struct(">q").pack
_float8 = Struct(">d").pack
_head = Struct(">iiIii").pack
_pair = Struct(">hh").pack

_NO_ITEMS = Struct(">iiI").pack
_INT8_ITEM = np.dtype([("size", ">i4"), ("value", ">i8")])
_FLOAT8_ITEM = np.dtype([("size", ">i4"), ("value", ">f8")])
_BOOL_ITEM = np.dtype([("size", ">i4"), ("value", "u1")])
_HEAD_BYTES = 20

KIND = {"local": ">f4", "semantic": ">f2"}
"""The form of one number in each table of vectors."""

Keys = NDArray[np.int64]


def text(value: str) -> bytes:
    return value.encode()


def int8(value: int) -> bytes:
    return _int8(value)


def float8(value: float) -> bytes:
    return _float8(value)


def flag(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def texts(values: Sequence[str | None]) -> bytes:
    """A list of texts; None is NULL."""
    parts = [_header(TEXT, len(values), nulls=True)]
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            encoded = value.encode()
            parts += (_int4(len(encoded)), encoded)
    return b"".join(parts)


def byteas(values: Sequence[bytes]) -> bytes:
    """A list of bytes."""
    return b"".join([_header(BYTES, len(values)), *(part for value in values for part in (_int4(len(value)), value))])


def int8s(values: Keys | Sequence[int]) -> bytes:
    return _items(INT8, _INT8_ITEM, 8, values)


def maybe_int8s(values: Sequence[int | None]) -> bytes:
    """A list of whole numbers; None is NULL."""
    parts = [_header(INT8, len(values), nulls=True)]
    parts += [b"\xff\xff\xff\xff" if value is None else b"\0\0\0\x08" + _int8(value) for value in values]
    return b"".join(parts)


def float8s(values: NDArray[np.float64] | Sequence[float]) -> bytes:
    return _items(FLOAT8, _FLOAT8_ITEM, 8, values)


def flags(values: NDArray[np.bool_] | Sequence[bool]) -> bytes:
    return _items(BOOL, _BOOL_ITEM, 1, values)


def vector(value: NDArray[np.float32], dimensions: int) -> bytes:
    """pgvector's form of a vector of float32, filled up with zeros to `dimensions`."""
    return _pair(dimensions, 0) + _filled(value[None, :], dimensions, ">f4").tobytes()


def halfvec(value: NDArray[np.float32], dimensions: int) -> bytes:
    """pgvector's form of a vector of half precision, filled up with zeros to `dimensions`."""
    return _pair(dimensions, 0) + _filled(value[None, :], dimensions, ">f2").tobytes()


def vectors(values: Sequence[NDArray[np.float32]], dimensions: int, oid: int, kind: str) -> bytes:
    """A list of vectors, whatever length each has, filled up to `dimensions`; `kind` is ">f4" for vector, ">f2" for halfvec."""
    item = np.dtype([("size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("numbers", kind, (dimensions,))])
    packed = np.zeros(len(values), dtype=item)
    packed["size"], packed["dimensions"] = item.itemsize - 4, dimensions
    for place, value in enumerate(values):
        packed["numbers"][place, : value.size] = value
    return _header(oid, len(values)) + packed.tobytes()


def numbers_of(packed: bytes | None) -> Keys:
    """The whole numbers of a bigint[] without NULLs."""
    if not packed or len(packed) <= _HEAD_BYTES:
        return np.zeros(0, dtype=np.int64)
    return np.frombuffer(packed, dtype=_INT8_ITEM, offset=_HEAD_BYTES)["value"].astype(np.int64)


def triples_of(packed: bytes | None) -> Keys:
    """Triples of whole numbers one after the other, each as `int8send` gives it: an array of three rows."""
    return np.frombuffer(packed or b"", dtype=">i8").reshape(-1, 3).T.astype(np.int64, order="C")


def vectors_of(packed: bytes | None, dimensions: int) -> NDArray[np.float32]:
    """Vectors one after the other, as little-endian float32."""
    return np.frombuffer(packed or b"", dtype="<f4").reshape(-1, dimensions).astype(np.float32, copy=False)


def halfvecs_of(packed: bytes | None, stored: int, dimensions: int) -> NDArray[np.float32]:
    """Vectors of `stored` dimensions one after the other, as `halfvec_send` gives them, cut to `dimensions`."""
    item = np.dtype([("dimensions", ">i2"), ("unused", ">i2"), ("numbers", ">f2", (stored,))])
    return np.frombuffer(packed or b"", dtype=item)["numbers"][:, :dimensions].astype(np.float32)


def _filled(values: NDArray[np.float32], dimensions: int, kind: str) -> NDArray[Any]:
    filled = np.zeros((values.shape[0], dimensions), dtype=kind)
    filled[:, : values.shape[1]] = values
    return filled


def _header(oid: int, items: int, *, nulls: bool = False) -> bytes:
    return _head(1, int(nulls), oid, items, 1) if items else _NO_ITEMS(0, 0, oid)


def _items(oid: int, item: np.dtype[Any], size: int, values: Any) -> bytes:
    packed = np.empty(len(values), dtype=item)
    packed["size"], packed["value"] = size, values
    return _header(oid, len(values)) + packed.tobytes()


def encoded(value: Any) -> bytes | None:
    """A parameter by its Python type; bytes are in Postgres's form already, a list holds texts or None."""
    encoder = _ENCODERS.get(type(value))
    return value if encoder is None else encoder(value)


def _array(values: NDArray[Any]) -> bytes:
    pack: Callable[[Any], bytes] = {"i": int8s, "f": float8s, "b": flags}[values.dtype.kind]
    return pack(values)


_ENCODERS: Mapping[type, Callable[[Any], bytes]] = {
    str: text,
    int: int8,
    bool: flag,
    float: float8,
    list: texts,
    np.ndarray: _array,
}
