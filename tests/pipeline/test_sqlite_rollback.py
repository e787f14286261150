"""A transaction that was not committed ends for certain, also when its rollback is itself stopped."""

import apsw

from remit.pipeline.storage.sqlite.line import OutOfTime, rolled_back


def test_a_rollback_that_is_stopped_is_begun_again() -> None:
    stopped: list[bool] = []

    def stop_once() -> bool:
        if not stopped:
            stopped.append(True)
            raise OutOfTime
        return False

    db = apsw.Connection(":memory:")
    db.execute("BEGIN")
    db.set_progress_handler(stop_once, 1)
    rolled_back(db)

    assert stopped, "the first rollback was stopped"
    assert not db.in_transaction
