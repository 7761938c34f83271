"""Snippets in Swift."""

import json

from keras_bert.export.snippets.example import body, quoted, sizes_of, url


def _swift_numbers(i):
    kind = i.dtype.replace("int", "Int")
    rows = [
        f"Array({quoted(row)}.unicodeScalars.map {{ {kind}($0.value) }})" if i.is_text else f"{row}" for row in i.rows
    ]
    return (
        f"let {i.name}: [{kind}] = [{', '.join(rows)}].flatMap {{ (row: [{kind}]) in\n"
        f"  Array((row + Array(repeating: 0, count: {i.width})).prefix({i.width}))\n}}\n"
    )


def rest(artifact):
    """A server of the SavedModel is asked."""
    asked = json.dumps(body(artifact), ensure_ascii=False)
    return (
        "// asks a server of this folder: keras-bert serve, or TensorFlow Serving\n"
        f'var request = URLRequest(url: URL(string: "{url(artifact)}")!)\n'
        'request.httpMethod = "POST"\n'
        f'request.httpBody = #"{asked}"#.data(using: .utf8)\n'
        "let (answer, _) = try await URLSession.shared.data(for: request)\n"
        "print(String(decoding: answer, as: UTF8.self))\n"
    )


def tflite(artifact):
    """A TFLite file is loaded and asked."""
    lines = "".join(_swift_numbers(i) for i in artifact.inputs)
    fed = ", ".join(f'"{artifact.signature}_{i.name}:0": {i.name}' for i in artifact.inputs)
    return (
        "// TensorFlowLiteSwift\n"
        'let interpreter = try Interpreter(modelPath: "model.tflite")\n'
        f"{lines}let values = [{fed}]\n"
        "try interpreter.allocateTensors()\n"
        "for i in 0..<interpreter.inputTensorCount {\n"
        "  let name = try interpreter.input(at: i).name\n"
        "  try interpreter.copy(values[name]!.withUnsafeBytes { Data($0) }, toInputAt: i)\n}\n"
        "try interpreter.invoke()\n"
        f"let answer = try interpreter.output(at: 0).data  // in the order of the alphabet: "
        f"{', '.join(sorted(artifact.outputs))}\n"
    )


def onnx(artifact):
    """An ONNX file is loaded and asked."""
    lines = "".join(
        f"{_swift_numbers(i)}"
        f"let {i.name}Value = try ORTValue(tensorData: NSMutableData(data: {i.name}.withUnsafeBytes {{ Data($0) }}),\n"
        f"  elementType: .{i.dtype}, shape: [{sizes_of(i.shape)}])\n"
        for i in artifact.inputs
    )
    fed = ", ".join(f'"{i.name}": {i.name}Value' for i in artifact.inputs)
    wanted = ", ".join(f'"{name}"' for name in artifact.outputs)
    return (
        "// onnxruntime-objc\n"
        "let env = try ORTEnv(loggingLevel: .warning)\n"
        'let session = try ORTSession(env: env, modelPath: "model.onnx", sessionOptions: nil)\n'
        f"{lines}"
        f"let answers = try session.run(withInputs: [{fed}], outputNames: [{wanted}], runOptions: nil)\n"
    )
