"""Migrations: in order, once, and nothing is done to a store that did not come from these files."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage import sqlite
from remit.pipeline.storage.migrations import Migration, pending, read

ONE = Migration(number=1, name="one", sql="CREATE TABLE one (a)")
TWO = Migration(number=2, name="two", sql="CREATE TABLE two (a)")


def test_a_store_gets_what_it_has_not_had() -> None:
    assert pending((ONE, TWO), {}) == (ONE, TWO)
    assert pending((ONE, TWO), {1: ONE.checksum}) == (TWO,)
    assert pending((ONE, TWO), {1: ONE.checksum, 2: TWO.checksum}) == ()


def test_a_newer_store_is_refused_with_what_to_do() -> None:
    with pytest.raises(StorageUnavailable, match="upgrade Remit"):
        pending((ONE,), {1: ONE.checksum, 2: TWO.checksum})


@pytest.mark.parametrize("applied", [{1: "other"}, {2: TWO.checksum}], ids=["changed", "with a gap"])
def test_a_store_of_other_files_is_refused(applied: dict[int, str]) -> None:
    with pytest.raises(StorageUnavailable, match="Nothing was changed"):
        pending((ONE, TWO), applied)


def test_files_are_read_in_order_and_alike_with_any_line_ends(tmp_path: Path) -> None:
    (tmp_path / "0002_two.sql").write_bytes(b"SELECT 1;\r\nSELECT 2;\r\n")
    (tmp_path / "0001_one.sql").write_bytes(b"SELECT 1;\nSELECT 2;\n")

    one, two = read(tmp_path)

    assert (one.number, two.number) == (1, 2)
    assert one.checksum == two.checksum


@pytest.mark.parametrize("name", ["0002_gap.sql", "one.sql", "0001-one.sql"])
def test_a_file_out_of_line_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("SELECT 1")

    with pytest.raises(ValueError, match="migration"):
        read(tmp_path)


def test_the_shipped_migrations_are_in_line() -> None:
    numbers = [each.number for each in read(Path(sqlite.__file__).parent / "migrations")]

    assert numbers
    assert numbers == list(range(1, len(numbers) + 1))
