"""Gives a model its weights, all of them or none."""


def assign_weights(model, arrays):
    """Sets every weight of `model` from `arrays`, or changes nothing.

    Args:
        model: a built `keras.Model`.
        arrays: dict from weight path to array of the weight's shape.

    Raises:
        ValueError: a weight has no array, an array has no weight, or a shape differs; no weight was changed.
    """
    weights = {weight.path: weight for weight in model.weights}
    missing, unused = sorted(weights.keys() - arrays.keys()), sorted(arrays.keys() - weights.keys())
    if missing or unused:
        raise ValueError(f"The names do not match. Without an array: {missing}. Without a weight: {unused}.")
    shapes = {path: (tuple(weight.shape), tuple(arrays[path].shape)) for path, weight in weights.items()}
    wrong = [f"{path} must be {want}, got {got}" for path, (want, got) in shapes.items() if want != got]
    if wrong:
        raise ValueError(f"The shapes do not match: {'; '.join(wrong)}.")
    for path, weight in weights.items():
        weight.assign(arrays[path])
