"""What a process does that another one started."""

import multiprocessing
import os
import threading
from multiprocessing.connection import wait


def end_with_parent():
    """Ends this process when the one that started it is gone, killed too."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait():
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)
