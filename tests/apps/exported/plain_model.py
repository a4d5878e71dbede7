"""What the scripts that write ONNX files for tests share."""

import onnx


def make_plain(path, kept=()):
    """Leaves out what an exporter notes of the program and of its place, which is most of a small file; the keys `kept` stay,
    and values of which one says something."""
    model = onnx.load(path)
    model.doc_string = ""
    said = [value for value in model.graph.value_info if any(entry.key in kept for entry in value.metadata_props)]
    del model.metadata_props[:], model.graph.value_info[:]
    model.graph.value_info.extend(said)
    for each in [model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer,
                 *model.graph.value_info]:
        each.doc_string = ""
        entries = [entry for entry in each.metadata_props if entry.key in kept]
        del each.metadata_props[:]
        each.metadata_props.extend(entries)
    onnx.save(model, path)
