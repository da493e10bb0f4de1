"""Networks that read a memory which is part of the observation, and answer a query about it: `hcam train --memory`.

They play any task whose observation has the parts of `given.Given`: chunks of items, how many of them there are, and a
query whose first item is the cue and whose others are the options, one per action.
"""

from typing import Any

from hcam.agent.readers.hcam_reader import HCAMReader
from hcam.agent.readers.memo import Memo
from hcam.agent.readers.universal import UniversalTransformer

READERS: dict[str, type[Any]] = {"hcam_reader": HCAMReader, "ut": UniversalTransformer, "memo": Memo}

__all__ = ["READERS", "HCAMReader", "Memo", "UniversalTransformer"]
