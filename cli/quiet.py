"""Imports TensorFlow without its start-up lines."""

import contextlib
import os
import sys
import tempfile


def import_tensorflow():
    """Imports TensorFlow; what its C++ side writes to standard error meanwhile is shown only if it fails."""
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _standard_error_held():
        import tensorflow  # noqa: F401


@contextlib.contextmanager
def _standard_error_held():
    with tempfile.TemporaryFile() as said:
        stderr = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(stderr, said.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
