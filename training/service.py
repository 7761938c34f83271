"""Uses TensorFlow. tf.data service: a dispatcher and workers, which make what `fit` takes on other cores or hosts."""

import multiprocessing

import tensorflow as tf

from keras_bert.training.child_process import end_with_parent

MOST_WAITING = 1000  # elements that may come before one that is late


def through_service(numbers, make, service, first):
    """Lets the workers of a tf.data service make elements, and gives them in the order that they would have without it.

    Args:
        numbers: tf.data.Dataset of int64, `first` and on without gaps.
        make: number () int64 -> element; what it captures is sent to the workers, so it must be under 2 GB.
        service: "grpc://host:port" of the dispatcher.

    Raises:
        RuntimeError, when iterated: a worker went away with an element.
    """
    policy = tf.data.experimental.service.ShardingPolicy.DYNAMIC  # each number goes to one worker
    numbered = tf.autograph.experimental.do_not_convert(lambda number: (number, make(number)))
    made = numbers.map(numbered, tf.data.AUTOTUNE, deterministic=True)
    made = made.apply(tf.data.experimental.service.distribute(policy, service))
    return tf.data.Dataset.from_generator(lambda: in_order(made, first), output_signature=made.element_spec[1])


def in_order(numbered, first):
    """Yields the elements of (number, element) by rising number, from `first` on."""
    waiting, following = {}, first
    for number, element in numbered:
        waiting[int(number)] = element
        while following in waiting:
            yield waiting.pop(following)
            following += 1
        if len(waiting) > MOST_WAITING:
            break
    if waiting:
        raise RuntimeError(
            f"The tf.data service lost element {following}: a worker went away. Go on from the last checkpoint."
        )


def serve(port=0, workers=1, host="localhost", dispatcher=None):
    """Starts a tf.data service: a dispatcher in this process, and workers in processes of their own.

    Args:
        port: of the dispatcher, 0 for a free one.
        workers: how many processes; 0 for a dispatcher alone.
        host: the name by which trainers and other hosts reach this one.
        dispatcher: "host:port" of a dispatcher that runs already, for more workers.

    Returns:
        the address "grpc://host:port"; the dispatcher, None if it runs elsewhere; the workers' processes, which end
        with this one.
    """
    server = None
    if dispatcher is None:
        server = tf.data.experimental.service.DispatchServer(tf.data.experimental.service.DispatcherConfig(port=port))
        dispatcher = f"{host}:{server.target.rpartition(':')[2]}"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(dispatcher, host), daemon=True) for _ in range(workers)]
    for process in processes:
        process.start()
    return f"grpc://{dispatcher}", server, processes


def work(dispatcher, host):
    """Is a worker, until the process ends."""
    end_with_parent()
    config = tf.data.experimental.service.WorkerConfig(dispatcher, worker_address=f"{host}:%port%")
    tf.data.experimental.service.WorkerServer(config).join()
