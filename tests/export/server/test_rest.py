import json

import numpy as np
import pytest

from keras_bert.export.server import rest
from keras_bert.export.server.refusal import Refusal
from keras_bert.export.server.versions import Signature, Spec

TEXT = Spec("string", (None,))
IDS = Spec("int32", (None, None))
SIGNATURES = {
    "serving_default": Signature({"text": TEXT}, None),
    "serving_pair": Signature({"text": TEXT, "text_pair": TEXT}, None),
    "serving_ids": Signature({"token_ids": IDS}, None),
    "serving_choice": Signature({"choices": Spec("string", (None, None)), "text": TEXT}, None),
    "weights": Signature({"w": Spec("float32", (None,))}, None),
    "with_default": Signature({"segment_ids": IDS, "token_ids": IDS}, None, ("segment_ids",)),
}


def read(request):
    return rest.read_request(json.dumps(request).encode(), SIGNATURES)


@pytest.mark.parametrize(
    ("request_", "arrays"),
    [
        ({"instances": ["a", "é", ""]}, {"text": [b"a", "é".encode(), b""]}),
        ({"instances": [{"text": "a"}, {"text": {"b64": "//4="}}]}, {"text": [b"a", b"\xff\xfe"]}),
        ({"instances": [{"b64": "//4="}, "a"]}, {"text": [b"\xff\xfe", b"a"]}),
        ({"inputs": ["a", "b"]}, {"text": [b"a", b"b"]}),
        ({"inputs": {"text": ["a", "b"]}}, {"text": [b"a", b"b"]}),
        (
            {"signature_name": "serving_pair", "instances": [{"text": "a", "text_pair": "b"}]},
            {"text": [b"a"], "text_pair": [b"b"]},
        ),
        (
            {"signature_name": "serving_choice", "instances": [{"text": "a", "choices": ["b", "c"]}] * 2},
            {"choices": [[b"b", b"c"]] * 2, "text": [b"a", b"a"]},
        ),
        ({"signature_name": "serving_ids", "instances": [[1, 2], [3, 4]]}, {"token_ids": [[1, 2], [3, 4]]}),
        ({"signature_name": "weights", "inputs": [1, 2.5]}, {"w": [1.0, 2.5]}),
        ({"signature_name": "with_default", "inputs": {"token_ids": [[1]]}}, {"token_ids": [[1]]}),
        (
            {"signature_name": "with_default", "instances": [{"token_ids": [1], "segment_ids": [2]}]},
            {"token_ids": [[1]], "segment_ids": [[2]]},
        ),
    ],
)
def test_rows_and_columns_become_arrays(request_, arrays):
    name, found, in_rows = read(request_)
    assert name == request_.get("signature_name", "serving_default")
    assert in_rows == ("instances" in request_)
    assert {key: array.tolist() for key, array in found.items()} == arrays
    for key, array in found.items():
        assert array.dtype == {"token_ids": np.int32, "segment_ids": np.int32, "w": np.float32}.get(key, object)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "The body must be JSON in UTF-8: Expecting property name"),
        (b"\xff\xfe\xfd", "The body must be JSON in UTF-8: "),
        (b"[" * 100_000, "The body must be JSON in UTF-8: maximum recursion depth"),
        (b"[]", 'The body must be a JSON object, such as {"instances": ["a text"]}.'),
        ({}, "The body must have either `instances` (rows) or `inputs` (columns)."),
        ({"instances": ["a"], "inputs": ["a"]}, "The body must have either `instances`"),
        ({"signature_name": "other", "instances": ["a"]}, "There is no signature 'other'; this model has serving_cho"),
        ({"signature_name": ["a"], "instances": ["a"]}, "There is no signature ['a']; this model has serving_cho"),
        ({"instances": "a"}, "`instances` must be a list of rows, got a string."),
        ({"instances": []}, "A request must have at least one row, got none."),
        ({"inputs": {"text": []}}, "A request must have at least one row, got none."),
        ({"inputs": "a"}, "`text` must have 1 axes, the rows included, got 0."),
        ({"instances": ["a", 7]}, "`text` must be strings, got a number."),
        ({"instances": ["a", None]}, "`text` must be strings, got null."),
        ({"instances": [{"text": True}]}, "`text` must be strings, got a boolean."),
        ({"instances": [["a"]]}, "`text` must have 1 axes, the rows included, got 2."),
        ({"instances": ["a", ["b"]]}, "`text` must be strings, got a list."),
        ({"instances": [{"b64": "*"}]}, "`b64` in `text` must be a string in base 64."),
        ({"instances": [{"b64": 7}]}, "`b64` in `text` must be a string in base 64."),
        ({"instances": ["\ud800"]}, "`text` must be Unicode, got half of a surrogate pair."),
        ({"instances": [{"txt": "a"}]}, "`instances[0]` must have text, got txt."),
        ({"instances": ["a", {}]}, "`instances[1]` must have text, got nothing."),
        ({"signature_name": "serving_pair", "instances": ["a"]}, "`instances[0]` must be an object with text, text_p"),
        ({"signature_name": "serving_pair", "inputs": ["a"]}, "`inputs` must be an object with text, text_pair, got"),
        ({"signature_name": "serving_pair", "inputs": {"text": ["a"]}}, "`inputs` must have text, text_pair, got text"),
        (
            {"signature_name": "serving_pair", "inputs": {"text": ["a"], "text_pair": ["a", "b"]}},
            "All inputs must have equally many rows, got {'text': 1, 'text_pair': 2}.",
        ),
        (
            {"signature_name": "with_default", "instances": [{"token_ids": [1]}, {"token_ids": [], "segment_ids": []}]},
            "`instances[1]` must have token_ids, got token_ids, segment_ids.",
        ),
        ({"signature_name": "with_default", "inputs": {"segment_ids": [[1]]}}, "`inputs` must have segment_ids, to"),
        ({"signature_name": "serving_ids", "instances": [[1], [2, 3]]}, "`token_ids` must have lists of equal len"),
        ({"signature_name": "serving_ids", "instances": [[1, 2], 3]}, "`token_ids` must have lists of equal len"),
        ({"signature_name": "serving_ids", "instances": [[1.5]]}, "`token_ids` must be integers of 32 bits, got a num"),
        ({"signature_name": "serving_ids", "instances": [["1"]]}, "`token_ids` must be integers of 32 bits, got a str"),
        ({"signature_name": "serving_ids", "instances": [[True]]}, "`token_ids` must be integers of 32 bits, got a bo"),
        ({"signature_name": "serving_ids", "instances": [[2**31]]}, "`token_ids` must be integers of 32 bits, got a l"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(body, sentence):
    with pytest.raises(Refusal) as refused:
        rest.read_request(body if isinstance(body, bytes) else json.dumps(body).encode(), SIGNATURES)
    assert refused.value.status == 400
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


OUTPUTS = {
    "label": np.array([b"a", b"\xff"], object),
    "probabilities": np.array([[0.1, 0.9], [1 / 3, 2 / 3]], np.float32),
    "words": np.array([[[b"x"], [b"y"]]] * 2, object),
    "entity_start": np.zeros((2, 0), np.int32),
}


def test_answers_in_rows_and_in_columns():
    rows = rest.response(OUTPUTS, in_rows=True)["predictions"]
    assert rows[0] == {"label": "a", "probabilities": [0.1, 0.9], "words": [["x"], ["y"]], "entity_start": []}
    assert rows[1]["label"] == "\ufffd"
    assert np.float32(rows[1]["probabilities"][0]) == np.float32(1 / 3)
    columns = rest.response(OUTPUTS, in_rows=False)["outputs"]
    assert columns == {name: [row[name] for row in rows] for name in OUTPUTS}


def test_a_single_output_has_no_name():
    only = {"embedding": OUTPUTS["probabilities"]}
    assert rest.response(only, in_rows=True)["predictions"][0] == [0.1, 0.9]
    assert rest.response(only, in_rows=False)["outputs"][0] == [0.1, 0.9]
    assert rest.response({"empty": np.zeros((2, 0), object)}, in_rows=True) == {"predictions": [[], []]}
