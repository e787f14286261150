"""Writing: what becomes of entries is decided from what stands there, then all of it is written at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import Entry, Receipt, Record, Refusal, Written
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.batch import Batch
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.rows import dumped, place_of, shelf_of, spelled
from remit.pipeline.storage.postgres.wire import numbers_of
from remit.stages.access import Access, Approval, Shelf
from remit.stages.evidence import MemoryId
from remit.stages.request import Source
