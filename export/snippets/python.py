"""Snippets in Python."""


def _python_numbers(i):
    """Numbers whose rows are made as long as the input is wide."""
    if i.is_text:
        rows = [f"*padded(map(ord, {row!r}), {i.width})" for row in i.rows]
    else:
        rows = [f"*padded({row}, {i.width})" for row in i.rows]
    return f'np.array([{", ".join(rows)}], "{i.dtype}").reshape({i.shape})'


def _python_inputs(artifact, make):
    lines = [f"    {i.name!r}: {make(i)}," for i in artifact.inputs]
    return "inputs = {\n" + "\n".join(lines) + "\n}\n"


_PADDED = "def padded(row, size):\n    return (list(row) + [0] * size)[:size]\n\n\n"


def saved_model(artifact):
    """A SavedModel is loaded and asked."""

    def make(i):
        return f"tf.constant({i.rows!r})" if i.dtype == "string" else f"tf.constant({_python_numbers(i)})"

    numbers = any(i.dtype != "string" for i in artifact.inputs)
    return (
        ("import numpy as np\n" if numbers else "") + "import tensorflow as tf\n\n"
        f"{_PADDED if numbers else ''}"
        f'model = tf.saved_model.load(".")  # this folder\n'
        f"{_python_inputs(artifact, make)}"
        f'for name, value in model.signatures["{artifact.signature}"](**inputs).items():\n'
        "    print(name, value.numpy())\n"
    )


def tflite(artifact):
    """A TFLite file is loaded and asked."""
    return (
        "import numpy as np\nfrom ai_edge_litert.interpreter import Interpreter\n\n\n"
        f"{_PADDED}"
        f'run = Interpreter("model.tflite").get_signature_runner("{artifact.signature}")\n'
        f"{_python_inputs(artifact, _python_numbers)}"
        "for name, value in run(**inputs).items():\n    print(name, value)\n"
    )


def onnx(artifact):
    """An ONNX file is loaded and asked."""
    return (
        "import numpy as np\nimport onnxruntime\n\n\n"
        f"{_PADDED}"
        'session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])\n'
        f"{_python_inputs(artifact, _python_numbers)}"
        "for output, value in zip(session.get_outputs(), session.run(None, inputs)):\n    print(output.name, value)\n"
    )
