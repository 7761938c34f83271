"""Snippets in JavaScript."""

import json

from keras_bert.export.snippets.example import body, quoted, sizes_of, url


def rest(artifact):
    """A server of the SavedModel is asked."""
    return (
        "// asks a server of this folder: keras-bert serve, or TensorFlow Serving\n"
        f"const body = {json.dumps(body(artifact), ensure_ascii=False)};\n"
        f'const response = await fetch("{url(artifact)}", {{ method: "POST", body: JSON.stringify(body) }});\n'
        "console.log(JSON.stringify((await response.json()).outputs));\n"
    )


def _js_numbers(i):
    rows = [f"[...{quoted(row)}].map((c) => c.codePointAt(0))" if i.is_text else f"{row}" for row in i.rows]
    big = i.dtype == "int64"
    mapped = ".map(BigInt)" if big else ""
    return (
        f"const {i.name} = {'BigInt64Array' if big else 'Int32Array'}.from([{', '.join(rows)}].flatMap(\n"
        f"  (row) => [...row, ...Array({i.width}).fill(0)].slice(0, {i.width})){mapped});\n"
    )


def tflite(artifact):
    """A TFLite file is loaded and asked."""
    lines = "".join(_js_numbers(i) for i in artifact.inputs)
    fed = ", ".join(f"{i.name}: new Tensor({i.name}, [{sizes_of(i.shape)}])" for i in artifact.inputs)
    return (
        "// npm install @litertjs/core\n"
        'import { loadAndCompile, loadLiteRt, Tensor } from "@litertjs/core";\n\n'
        'await loadLiteRt("node_modules/@litertjs/core/wasm/");\n'
        'const model = await loadAndCompile("model.tflite", { accelerator: "wasm" });\n'
        f"{lines}const answers = await model.run({{ {fed} }});  // {', '.join(artifact.outputs)}\n"
    )


def onnx(artifact):
    """An ONNX file is loaded and asked."""
    lines = "".join(_js_numbers(i) for i in artifact.inputs)
    fed = ", ".join(f'{i.name}: new ort.Tensor("{i.dtype}", {i.name}, [{sizes_of(i.shape)}])' for i in artifact.inputs)
    return (
        "// npm install onnxruntime-node, or onnxruntime-web in a browser\n"
        'import * as ort from "onnxruntime-node";\n\n'
        'const session = await ort.InferenceSession.create("model.onnx");\n'
        f"{lines}const answers = await session.run({{ {fed} }});  // {', '.join(artifact.outputs)}\n"
    )
