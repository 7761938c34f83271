"""Snippets in C++."""

import numpy as np

from keras_bert.export.snippets.example import braced, quoted, sizes_of


def _cpp_numbers(i):
    """A vector called as the input is, of all its numbers."""
    kind = f"{i.dtype}_t"
    if i.is_text:
        rows, row_kind = ", ".join(f"U{quoted(row)}" for row in i.rows), "std::u32string"
    else:
        rows, row_kind = ", ".join(map(braced, i.rows)), f"std::vector<{kind}>"
    return (
        f"std::vector<{kind}> {i.name};\n"
        f"for (const {row_kind}& row : std::vector<{row_kind}>{{{rows}}}) {{\n"
        f"  std::vector<{kind}> padded(row.begin(), row.end());\n"
        f"  padded.resize({i.width});\n"
        f"  {i.name}.insert({i.name}.end(), padded.begin(), padded.end());\n"
        "}\n"
    )


def saved_model(artifact):
    """A SavedModel is loaded and asked."""
    lines, feeds = "", []
    for i in artifact.inputs:
        kind = {"string": "tensorflow::tstring"}.get(i.dtype, f"{i.dtype}_t")
        type_ = {"string": "DT_STRING", "int32": "DT_INT32", "int64": "DT_INT64"}[i.dtype]
        lines += _cpp_numbers(i) if i.dtype != "string" else ""
        flat = braced(np.array(i.rows).ravel().tolist()) if i.dtype == "string" else i.name
        lines += f"tensorflow::Tensor {i.name}_tensor(tensorflow::{type_}, {{{sizes_of(i.shape)}}});\n"
        if i.dtype == "string":
            lines += f"const std::vector<std::string> {i.name} = {flat};\n"
        lines += f"std::copy({i.name}.begin(), {i.name}.end(), {i.name}_tensor.flat<{kind}>().data());\n"
        feeds.append(f'{{"{artifact.definition.inputs[i.name].name}", {i.name}_tensor}}')
    wanted = ", ".join(f'"{artifact.definition.outputs[name].name}"' for name in artifact.outputs)
    return (
        '#include "tensorflow/cc/saved_model/loader.h"\n\n'
        "// link with -Wl,--no-as-needed -ltensorflow_cc -ltensorflow_framework, or sessions are missing\n"
        "tensorflow::SavedModelBundle model;\n"
        'TF_CHECK_OK(tensorflow::LoadSavedModel({}, {}, ".", {"serve"}, &model));\n'
        f"{lines}"
        f"std::vector<tensorflow::Tensor> answers;  // {', '.join(artifact.outputs)}\n"
        f"TF_CHECK_OK(model.session->Run({{{', '.join(feeds)}}}, {{{wanted}}}, {{}}, &answers));\n"
    )


def tflite(artifact):
    """A TFLite file is loaded and asked."""
    lines = ""
    for i in artifact.inputs:
        lines += _cpp_numbers(i) + f'run->ResizeInputTensor("{i.name}", {{{sizes_of(i.shape)}}});\n'
    lines += "run->AllocateTensors();\n"
    for i in artifact.inputs:
        lines += f'std::copy({i.name}.begin(), {i.name}.end(), run->input_tensor("{i.name}")->data.i32);\n'
    first = next(iter(artifact.outputs))
    return (
        '#include "tensorflow/lite/interpreter.h"\n#include "tensorflow/lite/kernels/register.h"\n'
        '#include "tensorflow/lite/model.h"\n\n'
        'auto model = tflite::FlatBufferModel::BuildFromFile("model.tflite");\n'
        "tflite::ops::builtin::BuiltinOpResolver operations;\n"
        "std::unique_ptr<tflite::Interpreter> interpreter;\n"
        "tflite::InterpreterBuilder(*model, operations)(&interpreter);\n"
        f'auto* run = interpreter->GetSignatureRunner("{artifact.signature}");\n'
        f"{lines}run->Invoke();\n"
        f'const TfLiteTensor* answer = run->output_tensor("{first}");  // one of {", ".join(artifact.outputs)}\n'
    )


def onnx(artifact):
    """An ONNX file is loaded and asked."""
    lines = ""
    for i in artifact.inputs:
        lines += _cpp_numbers(i) + f"const std::vector<int64_t> {i.name}_shape{{{sizes_of(i.shape)}}};\n"
    names = ", ".join(f'"{i.name}"' for i in artifact.inputs)
    values = "".join(
        f"inputs.push_back(Ort::Value::CreateTensor<{i.dtype}_t>(memory, {i.name}.data(), {i.name}.size(),\n"
        f"                 {i.name}_shape.data(), {i.name}_shape.size()));\n"
        for i in artifact.inputs
    )
    wanted = ", ".join(f'"{name}"' for name in artifact.outputs)
    return (
        "#include <onnxruntime_cxx_api.h>\n\n"
        'Ort::Env env;\nOrt::Session session(env, "model.onnx", Ort::SessionOptions{});\n'
        f"{lines}"
        "auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);\n"
        f"std::vector<Ort::Value> inputs;\n{values}"
        f"const char* names[] = {{{names}}};\nconst char* wanted[] = {{{wanted}}};\n"
        f"auto answers = session.Run(Ort::RunOptions{{}}, names, inputs.data(), {len(artifact.inputs)}, wanted, "
        f"{len(artifact.outputs)});\n"
    )
