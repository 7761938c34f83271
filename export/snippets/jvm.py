"""Snippets in Java and in Kotlin."""

from keras_bert.export.snippets.example import braced, quoted, sizes_of


def _java_row(i, row, long):
    points = f"{quoted(row)}.codePoints()" if i.is_text else f"IntStream.of({sizes_of(row)})"
    return f"Arrays.copyOf({points}{'.asLongStream()' if long else ''}.toArray(), {i.width})"


def _java_nested(i, long):
    """Rows in as many braces as the shape has axes before the last."""
    text = ", ".join(_java_row(i, row, long) for row in i.rows)
    return "{" * (len(i.shape) - 1) + text + "}" * (len(i.shape) - 1)


def java_saved_model(artifact):
    """A SavedModel is loaded and asked."""
    lines = ""
    for i in artifact.inputs:
        if i.dtype == "string" and len(i.shape) == 1:
            lines += f"TString {i.name} = TString.vectorOf({braced(i.rows)[1:-1]});\n"
        elif i.dtype == "string":
            values = f"NdArrays.ofObjects(String.class, Shape.of({sizes_of(i.shape)}))"
            lines += f"NdArray<String> {i.name}Rows = {values};\n"
            for n, row in enumerate(i.rows):
                lines += f"{i.name}Rows.set(NdArrays.vectorOfObjects({braced(row)[1:-1]}), {n});\n"
            lines += f"TString {i.name} = TString.tensorOf({i.name}Rows);\n"
        else:
            kind, to = ("TInt64", "long") if i.dtype == "int64" else ("TInt32", "int")
            axes = "[]" * len(i.shape)
            made = f"StdArrays.ndCopyOf(new {to}{axes} {_java_nested(i, to == 'long')})"
            lines += f"{kind} {i.name} = {kind}.tensorOf({made});\n"
    fed = ", ".join(f'"{i.name}", {i.name}' for i in artifact.inputs)
    first = next(iter(artifact.outputs))
    return (
        "// org.tensorflow:tensorflow-core-platform\n"
        'SavedModelBundle model = SavedModelBundle.load(".", "serve");\n'
        f"{lines}"
        f'Result answers = model.function("{artifact.signature}").call(Map.of({fed}));\n'
        f'Tensor answer = answers.get("{first}").get();  // one of {", ".join(artifact.outputs)}\n'
    )


def kotlin_saved_model(artifact):
    """A SavedModel is loaded and asked."""
    java = java_saved_model(artifact)
    for kind in ("SavedModelBundle", "TString", "NdArray<String>", "TInt32", "TInt64", "Result", "Tensor"):
        java = java.replace(f"\n{kind} ", "\nval ")
    java = java.replace(";\n", "\n").replace(";  //", "  //").replace("String.class", "String::class.java")
    java = java.replace("Map.of(", "mapOf(")
    for i in artifact.inputs:
        java = java.replace(f'"{i.name}", {i.name}', f'"{i.name}" to {i.name}')
        if i.dtype != "string":
            to = "long" if i.dtype == "int64" else "int"
            made = f"new {to}{'[]' * len(i.shape)} {_java_nested(i, to == 'long')}"
            java = java.replace(made, _kotlin_nested(i, to == "long"))
    return java


def _kotlin_nested(i, long):
    rows = ", ".join(_java_row(i, row, long) for row in i.rows)
    return "arrayOf(" * (len(i.shape) - 1) + rows + ")" * (len(i.shape) - 1)


def _java_outputs(artifact):
    kinds = {"int32": "int", "int64": "long", "float32": "float"}
    return {
        name: f"new {kinds[str(array.dtype)]}{''.join(f'[{size}]' for size in array.shape)}"
        for name, array in artifact.outputs.items()
    }


def java_tflite(artifact):
    """A TFLite file is loaded and asked."""
    fed = ", ".join(f'"{i.name}", new int{"[]" * len(i.shape)} {_java_nested(i, False)}' for i in artifact.inputs)
    lines = "".join(f'answers.put("{name}", {made});\n' for name, made in _java_outputs(artifact).items())
    return (
        "// org.tensorflow:tensorflow-lite, com.google.ai.edge.litert:litert\n"
        'Interpreter interpreter = new Interpreter(new File("model.tflite"));\n'
        f"Map<String, Object> inputs = Map.of({fed});\n"
        f"Map<String, Object> answers = new HashMap<>();\n{lines}"
        f'interpreter.runSignature(inputs, answers, "{artifact.signature}");\n'
    )


def kotlin_tflite(artifact):
    """A TFLite file is loaded and asked."""
    fed = ", ".join(f'"{i.name}" to {_kotlin_nested(i, False)}' for i in artifact.inputs)
    makers = {"int32": "IntArray", "int64": "LongArray", "float32": "FloatArray"}
    lines = []
    for name, array in artifact.outputs.items():
        sizes = array.shape or (1,)
        made = f"{makers[str(array.dtype)]}({sizes[-1]})"
        for size in sizes[-2::-1]:
            made = f"Array({size}) {{ {made} }}"
        lines.append(f'"{name}" to {made}')
    return (
        'val interpreter = Interpreter(File("model.tflite"))\n'
        f"val inputs = mapOf<String, Any>({fed})\n"
        f"val answers = mutableMapOf<String, Any>({', '.join(lines)})\n"
        f'interpreter.runSignature(inputs, answers, "{artifact.signature}")\n'
    )


def java_onnx(artifact):
    """An ONNX file is loaded and asked."""
    fed = ", ".join(
        f'"{i.name}", OnnxTensor.createTensor(env, new {"long" if i.dtype == "int64" else "int"}{"[]" * len(i.shape)} '
        f"{_java_nested(i, i.dtype == 'int64')})"
        for i in artifact.inputs
    )
    first = next(iter(artifact.outputs))
    return (
        "// com.microsoft.onnxruntime:onnxruntime\n"
        "OrtEnvironment env = OrtEnvironment.getEnvironment();\n"
        'OrtSession session = env.createSession("model.onnx");\n'
        f"OrtSession.Result answers = session.run(Map.of({fed}));\n"
        f'Object answer = answers.get("{first}").get().getValue();  // one of {", ".join(artifact.outputs)}\n'
    )


def kotlin_onnx(artifact):
    """An ONNX file is loaded and asked."""
    fed = ", ".join(
        f'"{i.name}" to OnnxTensor.createTensor(env, {_kotlin_nested(i, i.dtype == "int64")})' for i in artifact.inputs
    )
    first = next(iter(artifact.outputs))
    return (
        "val env = OrtEnvironment.getEnvironment()\n"
        'val session = env.createSession("model.onnx")\n'
        f"val answers = session.run(mapOf({fed}))\n"
        f'val answer = answers.get("{first}").get().value  // one of {", ".join(artifact.outputs)}\n'
    )
