"""A local server of our SavedModels that speaks TensorFlow Serving's REST contract, for laptops and tests."""

from importlib.util import find_spec

PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn", "prometheus-client": "prometheus_client"}
PACKAGES |= {"tensorflow-serving-api": "tensorflow_serving"}


def check_installed():
    """Refuses where the extra `serving` is missing."""
    missing = [name for name, module in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise ImportError(f'The server needs {", ".join(missing)}: pip install "keras3-bert[serving]"')
