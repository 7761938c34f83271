"""TFLite metadata as MediaPipe's text tasks read it, written and checked with flatbuffers alone.

A file of the schema "M001" in the buffer TFLITE_METADATA, and a zip with the associated files behind the model. Numbers
of fields are their places in MediaPipe's metadata_schema.fbs; a union takes two, its type first.
"""

import io
import zipfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import encode, number_types, packer
from flatbuffers.table import Table

from keras_bert.tokenization.tokenizer import Tokenizer

KEY, IDENTIFIER = b"TFLITE_METADATA", b"M001"
VOCABULARY, AXIS_LABELS = 5, 2  # AssociatedFileType
BERT_TOKENIZER = 4  # of the union ProcessUnitOptions
FEATURE_PROPERTIES = 1  # of the union ContentProperties
# our inputs under the names by which MediaPipe finds them
INPUTS = {"token_ids": "ids", "padding_mask": "mask", "segment_ids": "segment_ids"}
OUTPUTS = {"sequence_classifier": "probabilities", "sentence_embedder": "embedding"}
VOCAB_FILE, LABELS_FILE = "vocab.txt", "labels.txt"


def check_bundle(bundle):
    """Refuses, with the reason, what MediaPipe's text tasks would refuse or answer wrongly."""
    tokenizer, reason = bundle.tokenizer, None
    if bundle.head not in OUTPUTS:
        reason = f"must be one of {', '.join(OUTPUTS)}, got {bundle.head}"
    elif not isinstance(tokenizer, Tokenizer):
        reason = "must have a WordPiece tokenizer"
    elif not tokenizer.lowercase:
        reason = "must be uncased, since MediaPipe lowers every text before it tokenizes it"
    elif tokenizer.pad_id != 0:
        reason = f"must have [PAD] as token 0, with which MediaPipe pads, got {tokenizer.pad_id}"
    elif not {"[CLS]", "[SEP]"} <= set(tokenizer.special_tokens):
        reason = "must have [CLS] and [SEP] in its vocabulary, which MediaPipe looks up by these names"
    if reason:
        raise ValueError(f"A model for MediaPipe {reason}.")


def attach(content, bundle):
    """Gives the TFLite file `content` with metadata, vocabulary and labels; `check` is the judge of it."""
    inputs, outputs = _tensor_names(content)
    files = {VOCAB_FILE: bundle.tokenizer.vocab}
    if bundle.labels is not None:
        files[LABELS_FILE] = bundle.labels
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(_model_metadata(bundle, inputs, outputs), np.uint8)
    entry.name, entry.buffer = KEY, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    builder = flatbuffers.Builder(len(content) + 100_000)
    builder.Finish(model.Pack(builder), b"TFL3")
    packed = io.BytesIO(bytes(builder.Output()))
    with zipfile.ZipFile(packed, "a") as archive:
        for name, lines in files.items():
            archive.writestr(zipfile.ZipInfo(name), "".join(f"{line}\n" for line in lines).encode())
    return packed.getvalue()


def check(content):
    """Refuses a file that breaks a clause of MediaPipe's contract for BERT models, and names the clause.

    Returns:
        dict: "inputs" and "outputs", the names in the metadata in the order of the tensors; "length", T; "files", the
        associated files' lines by name.
    """
    model = schema.Model.GetRootAs(content, 0)
    _demand(model.SubgraphsLength() == 1, "have one subgraph", model.SubgraphsLength())
    graph = model.Subgraphs(0)
    tensors = [graph.Tensors(graph.Inputs(i)) for i in range(graph.InputsLength())]
    _demand(len(tensors) == 3, "have three inputs", len(tensors))
    types = [tensor.Type() for tensor in tensors]
    _demand(set(types) == {schema.TensorType.INT32}, "have int32 inputs", types)
    shapes = {tuple(tensor.ShapeAsNumpy().tolist()) for tensor in tensors}
    fixed = [tensor.ShapeSignatureIsNone() or -1 not in tensor.ShapeSignatureAsNumpy() for tensor in tensors]
    is_one_text = len(shapes) == 1 and len(min(shapes)) == 2 and min(shapes)[0] == 1 and all(fixed)
    _demand(is_one_text, "have inputs of one shape [1, T]", sorted(shapes))
    found = _parsed(_metadata_buffer(model))
    _demand(sorted(found["inputs"]) == sorted(INPUTS.values()), "name ids, mask, segment_ids", found["inputs"])
    count = graph.OutputsLength()
    _demand(len(found["outputs"]) == count == 1, "describe its one output", f"{found['outputs']} for {count}")
    _demand(found["tokenizer"] == [VOCAB_FILE], "have a BertTokenizer with vocab.txt", found["tokenizer"])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    named = [VOCAB_FILE, *found["labels"]]
    _demand(sorted(files) == sorted(named), f"have {', '.join(named)} attached", sorted(files))
    for name, text in files.items():
        _demand("\r" not in text and text.endswith("\n"), f"end the lines of {name} with LF alone", repr(text[-9:]))
    lines = {name: text.split("\n")[:-1] for name, text in files.items()}
    return {"inputs": found["inputs"], "outputs": found["outputs"], "length": min(shapes)[1], "files": lines}


def _demand(holds, clause, got):
    if not holds:
        raise ValueError(f"A file for MediaPipe must {clause}, got {got}.")


def _tensor_names(content):
    """Gives the signature's names of inputs and outputs, in the order of the subgraph's tensors."""
    model = schema.Model.GetRootAs(content, 0)
    signature, graph = model.SignatureDefs(0), model.Subgraphs(0)
    names = {}
    for count, item in ((signature.InputsLength(), signature.Inputs), (signature.OutputsLength(), signature.Outputs)):
        names |= {item(i).TensorIndex(): item(i).Name().decode() for i in range(count)}
    return [names[i] for i in graph.InputsAsNumpy()], [names[i] for i in graph.OutputsAsNumpy()]


def _model_metadata(bundle, inputs, outputs):
    """Gives the bytes of a ModelMetadata."""
    builder = flatbuffers.Builder(1024)
    vocab = _file(builder, VOCAB_FILE, VOCABULARY)
    tokenizer = _table(builder, 1, {0: _vector(builder, [vocab])})
    unit = _table(builder, 2, {1: tokenizer}, {0: BERT_TOKENIZER})
    labels = [] if bundle.labels is None else [_file(builder, LABELS_FILE, AXIS_LABELS)]
    ours = [_tensor(builder, INPUTS[name], []) for name in inputs]
    theirs = [_tensor(builder, name, labels) for name in outputs]
    fields = {0: "keras3-bert", 2: ours, 3: theirs, 5: [unit]}
    graph = _table(builder, 10, {slot: _offset(builder, value) for slot, value in fields.items()})
    fields = {0: f"{bundle.head} for MediaPipe", 3: [graph], 7: "1.0.0"}
    root = _table(builder, 8, {slot: _offset(builder, value) for slot, value in fields.items()})
    builder.Finish(root, IDENTIFIER)
    return bytes(builder.Output())


def _tensor(builder, name, files):
    properties = _table(builder, 0, {})
    content = _table(builder, 3, {1: properties}, {0: FEATURE_PROPERTIES})
    fields = {0: builder.CreateString(name), 3: content}
    if files:
        fields[6] = _vector(builder, files)
    return _table(builder, 7, fields)


def _file(builder, name, kind):
    return _table(builder, 5, {0: builder.CreateString(name)}, {2: kind})


def _offset(builder, value):
    return builder.CreateString(value) if isinstance(value, str) else _vector(builder, value)


def _vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _table(builder, slots, offsets, numbers=None):
    """Writes a table of `slots` fields: offsets of what was written before, and bytes (enums, types of unions)."""
    builder.StartObject(slots)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, number in (numbers or {}).items():
        builder.PrependUint8Slot(slot, number, 0)
    return builder.EndObject()


def _metadata_buffer(model):
    entries = [model.Metadata(i) for i in range(model.MetadataLength())]
    found = [entry.Buffer() for entry in entries if entry.Name() == KEY]
    _demand(len(found) == 1, "hold metadata once", len(found))
    return model.Buffers(found[0]).DataAsNumpy().tobytes()


def _parsed(content):
    """Reads the names in a ModelMetadata: "inputs", "outputs", the files of the "tokenizer" and of the "labels"."""
    _demand(content[4:8] == IDENTIFIER, "hold metadata of the schema M001", content[4:8])
    root = Table(content, encode.Get(packer.uoffset, content, 0))
    graphs = _tables(root, 3)
    _demand(len(graphs) == 1, "describe one subgraph", len(graphs))
    inputs, outputs, units = (_tables(graphs[0], slot) for slot in (2, 3, 5))
    is_bert = len(units) == 1 and _number(units[0], 0) == BERT_TOKENIZER
    tokenizer = _tables(_child(units[0], 1), 0) if is_bert else []
    labels = [file for output in outputs for file in _tables(output, 6) if _number(file, 2) == AXIS_LABELS]
    tables = {"inputs": inputs, "outputs": outputs, "tokenizer": tokenizer, "labels": labels}
    return {name: [_text(table, 0) for table in found] for name, found in tables.items()}


def _place(table, slot):
    return table.Offset(4 + 2 * slot)


def _number(table, slot):
    place = _place(table, slot)
    return table.Get(number_types.Uint8Flags, place + table.Pos) if place else 0


def _text(table, slot):
    place = _place(table, slot)
    return table.String(place + table.Pos).decode() if place else ""


def _child(table, slot):
    return Table(table.Bytes, table.Indirect(_place(table, slot) + table.Pos))


def _tables(table, slot):
    place = _place(table, slot)
    if not place:
        return []
    start = table.Vector(place)
    return [Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(table.VectorLen(place))]
