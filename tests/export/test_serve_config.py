"""What TensorFlow Serving reads, read back by its own protocol, or by the fields that its sources give."""

import json

import pytest
import yaml  # comes with tokenizers
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2
from tensorflow_serving.config import model_server_config_pb2

from keras_bert.export import serve_config

FIELD = descriptor_pb2.FieldDescriptorProto
INT64, BOOL = ".google.protobuf.Int64Value", ".google.protobuf.BoolValue"
# tensorflow-serving-api does not have these two; fields as in session_bundle_config.proto and monitoring_config.proto
MESSAGES = {
    "BatchingParameters": {
        "max_batch_size": INT64,
        "batch_timeout_micros": INT64,
        "max_enqueued_batches": INT64,
        "num_batch_threads": INT64,
        "pad_variable_length_inputs": FIELD.TYPE_BOOL,
        "enable_large_batch_splitting": BOOL,
        "max_execution_batch_size": INT64,
    },
    "PrometheusConfig": {"enable": FIELD.TYPE_BOOL, "path": FIELD.TYPE_STRING},
    "MonitoringConfig": {"prometheus_config": ".checked.PrometheusConfig"},
}


@pytest.fixture(scope="module")
def messages():
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(name="checked.proto", package="checked", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            is_message = isinstance(kind, str)
            made = message.field.add(name=field, number=number, label=FIELD.LABEL_OPTIONAL)
            made.type = FIELD.TYPE_MESSAGE if is_message else kind
            if is_message:
                made.type_name = kind
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"checked.{name}")) for name in MESSAGES}


@pytest.fixture
def served(tmp_path):
    for name, numbers in {"reviews": (1, 2, 10), 'a "b"': (3,)}.items():
        for number in numbers:
            path = tmp_path / name / str(number)
            path.mkdir(parents=True)
            (path / "saved_model.pb").touch()
    (tmp_path / "reviews" / "11").mkdir()  # a copy that has begun
    return tmp_path


def test_files_are_what_tensorflow_serving_reads(served, messages):
    folders = {"reviews": served / "reviews", 'a "b"': served / 'a "b"'}
    out = served / "out"
    serve_config.write(folders, out, {("reviews", "stable"): 1, ("reviews", "canary"): 10}, 16, 2.5, 3)
    files = {path.name: path.read_text() for path in out.iterdir()}
    models = text_format.Parse(files["models.config"], model_server_config_pb2.ModelServerConfig())
    reviews, other = models.model_config_list.config
    assert (reviews.name, reviews.base_path, reviews.model_platform) == ("reviews", "/models/reviews", "tensorflow")
    assert list(reviews.model_version_policy.specific.versions) == [1, 10]
    assert dict(reviews.version_labels) == {"stable": 1, "canary": 10}
    assert (other.name, other.base_path, other.HasField("model_version_policy")) == ('a "b"', '/models/a "b"', False)
    batching = text_format.Parse(files["batching.config"], messages["BatchingParameters"]())
    assert batching.max_execution_batch_size.value == 16
    assert batching.max_batch_size.value == 1024
    assert batching.batch_timeout_micros.value == 2500
    assert batching.num_batch_threads.value == 3
    assert batching.enable_large_batch_splitting.value
    assert not batching.pad_variable_length_inputs
    monitoring = text_format.Parse(files["monitoring.config"], messages["MonitoringConfig"]())
    assert monitoring.prometheus_config.enable
    assert monitoring.prometheus_config.path == "/monitoring/prometheus/metrics"


def test_the_compose_file_mounts_what_the_configs_name(served):
    folders = {"reviews": served / "reviews", 'a "b"': served / 'a "b"'}
    serve_config.write(folders, served / "out", image="tensorflow/serving:2.18.0")
    service = yaml.safe_load((served / "out" / "compose.yaml").read_text())["services"]["serving"]
    assert service["image"] == "tensorflow/serving:2.18.0"
    assert service["ports"] == ["127.0.0.1:8500:8500", "127.0.0.1:8501:8501"]
    mounts = {mount["target"]: mount["source"] for mount in service["volumes"]}
    assert mounts == {
        "/config": ".",
        "/models/reviews": str(served / "reviews"),
        '/models/a "b"': str(served / 'a "b"'),
    }
    assert all(mount["read_only"] and mount["type"] == "bind" for mount in service["volumes"])
    named = {option.split("=/config/")[1] for option in service["command"] if "=/config/" in option}
    assert named == {"models.config", "batching.config", "monitoring.config"}
    assert "--allow_version_labels_for_unavailable_models=true" not in service["command"]
    serve_config.write(folders, served / "out", {("reviews", "stable"): 1})
    assert "--allow_version_labels_for_unavailable_models=true" in (served / "out" / "compose.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"labels": {("reviews", "stable"): 7}}, "must hold the versions that have labels, but 7 is not there"),
        ({"labels": {("other", "stable"): 1}}, "A label must be one of reviews, got one of `other`"),
        ({"max_batch_size": 0}, "`max_batch_size` must be at least 1, got 0"),
        ({"threads": 0}, "`threads` must be at least 1, got 0"),
        ({"max_delay_ms": -1}, "`max_delay_ms` must be at least 0, got -1"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(served, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        serve_config.write({"reviews": served / "reviews"}, served / "out", **options)
    with pytest.raises(ValueError, match="must hold version folders, such as"):
        serve_config.write({"reviews": served}, served / "out")
    assert not (served / "out").exists()


def test_a_folder_of_somebody_else_is_not_replaced(served):
    (served / "out").mkdir()
    (served / "out" / "mine").touch()
    with pytest.raises(ValueError, match="holds mine, which was not written here"):
        serve_config.write({"reviews": served / "reviews"}, served / "out")


def test_the_command_writes_them(served):
    from typer.testing import CliRunner

    from keras_bert_cli.main import app

    arguments = ["serve-config", str(served / "reviews"), "--out", str(served / "out"), "--label", "reviews/stable=2"]
    result = CliRunner().invoke(app, [*arguments, "--image", "tensorflow/serving:2.18.0"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "models.config, batching.config, monitoring.config, compose.yaml" in result.stdout
    assert json.dumps("stable") in (served / "out" / "models.config").read_text()
    assert "tensorflow/serving:2.18.0" in (served / "out" / "compose.yaml").read_text()
