import dataclasses

import pytest

from keras_bert.training.settings import read_settings


@dataclasses.dataclass(frozen=True)
class Recipe:
    corpus: str | tuple[str, ...]
    out: str = "out"
    steps: int = 3
    rate: float = 0.1
    lowercase: bool = True


def test_later_sources_win(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"corpus": "a.txt", "out": "x", "steps": 5, "rate": 1}')
    settings = read_settings(Recipe, path, ["steps=7", "out=7", "lowercase=false"], out="z", rate=None)
    assert settings == Recipe("a.txt", "z", 7, 1.0, False)
    assert isinstance(settings.rate, float)


def test_lists_of_strings(tmp_path):
    assert read_settings(Recipe, None, ['corpus=["a", "b"]']).corpus == ("a", "b")
    path = tmp_path / "run.json"
    path.write_text('{"corpus": ["a", "b"]}')
    assert read_settings(Recipe, path).corpus == ("a", "b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"corpus": "a", "step": 5}', r"^Unknown key `step` in .*run\.json\. Did you mean `steps`\?$"),
        ('{"corpus": "a", "steps": 5.5}', r"^`steps` must be an integer, got 5\.5 in .*run\.json\.$"),
        ('{"corpus": "a", "steps": true}', r"^`steps` must be an integer, got True in .*run\.json\.$"),
        ('{"corpus": [1]}', r"^`corpus` must be a string or a list of strings, got \[1\] in .*run\.json\.$"),
        ("{}", r"^`corpus` is missing in .*run\.json\. Set it by --set corpus=\.\.\.$"),
        ("[]", r"^.*run\.json must hold a JSON object, got list\.$"),
        ("{", r"^.*run\.json is not JSON in UTF-8: .*$"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_settings(Recipe, path)


def test_bad_assignments(tmp_path):
    for assignment, message in (
        ("steps=three", r"^`steps` must be an integer, got 'three' in --set\.$"),
        ("lowercase=yes", r"^`lowercase` must be true or false, got 'yes' in --set\.$"),
        ("stesp=3", r"^Unknown key `stesp` in --set\. Did you mean `steps`\?$"),
        ("steps", r"^--set must be given as field=value, got `steps`\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            read_settings(Recipe, None, ["corpus=a", assignment])
    with pytest.raises(ValueError, match=r"gone\.json is missing\.$"):
        read_settings(Recipe, tmp_path / "gone.json")
