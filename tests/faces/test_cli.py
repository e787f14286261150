"""The command line: what a person and a program get for each command, and for everything that can be stated wrongly."""

import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from remit.pipeline.faces.show import SENTENCES
from remit.pipeline.why import NO_WORD, NOT_IN_SCOPE, RETURNED, STOPPED
from remit.stages.report import Reason
from tests_faces import Remit
