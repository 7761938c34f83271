"""SavedModels of tiny heads that several files of tests ask."""

import functools

import pytest

from keras_bert.export import saved_model
from tests.models import tiny_bundle


@pytest.fixture(scope="session")
def written_head(tmp_path_factory):
    """(head) -> its tiny bundle, and the folder of versions that its SavedModel is in; written once."""

    @functools.cache
    def written(head):
        bundle = tiny_bundle(head)
        folder = tmp_path_factory.mktemp("heads") / head
        saved_model.write(bundle, folder / "1")
        return bundle, folder

    return written
