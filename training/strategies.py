"""Uses TensorFlow. `tf.distribute` strategies by name, and what is wrong with a machine said before any work."""

import json
import os
import socket
import time

import tensorflow as tf

from keras_bert.config import did_you_mean

STRATEGIES = ("none", "mirrored", "multi_worker", "tpu")


def strategy(name, devices=0, hosts=(), worker=0, timeout_s=300.0):
    """Gives the strategy of a name; models, optimizers and metrics are made inside its `scope()`.

    Args:
        name: "none", one device; "mirrored", the GPUs of this machine, or its logical CPUs where it has no GPU;
            "multi_worker", a process on each of several machines; "tpu", which nobody has tried yet.
        devices: how many devices "mirrored" uses; 0 for all.
        hosts: "host:port" of each process of "multi_worker", the same list on all; empty takes `TF_CONFIG`.
        worker: the number of this process in `hosts`, from 0, which is the chief.
        timeout_s: how long "multi_worker" waits for the other hosts.

    Raises:
        ValueError: the name is unknown, the devices are not there, or the hosts are no list of hosts.
        OSError: the port is in use, or a host does not answer.
    """
    if name not in STRATEGIES:
        raise ValueError(f"Unknown strategy `{name}`.{did_you_mean(name, STRATEGIES)} Known: {', '.join(STRATEGIES)}.")
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(_local_devices(devices))
    if name == "multi_worker":
        return _multi_worker(hosts, worker, timeout_s)
    if name == "tpu":
        return _tpu()
    return tf.distribute.get_strategy()


def is_chief(strategy):
    """Whether this process is the one that writes files: the only one, or the first of several."""
    if not is_multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    hosts = resolver.cluster_spec().as_dict()
    return resolver.task_id == 0 and (resolver.task_type == "chief" or "chief" not in hosts)


def is_multi_worker(strategy):
    """Whether there are other processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and strategy.extended._in_multi_worker_mode()


def check_batch_size(batch_size, strategy, accumulate=1):
    """Raises ValueError where a batch cannot be split evenly over the devices, and each share into its parts."""
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * accumulate):
        raise ValueError(
            f"`batch_size` must be a multiple of {replicas * accumulate}, for {replicas} x {accumulate} equal parts "
            f"(devices, `accumulate`), got {batch_size}."
        )


def _local_devices(count):
    """Names of this machine's GPUs, or of its logical CPUs where it has none."""
    found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    kind = found[0].device_type
    if count > len(found) or (kind == "CPU" and len(found) < 2):
        needed = f"{count} devices" if count else "a GPU or several logical CPUs"
        raise ValueError(f"`mirrored` needs {needed}, but this machine has {len(found)} {kind}.")
    return [device.name for device in found[: count or None]]


def _multi_worker(hosts, worker, timeout_s):
    if hosts:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(hosts)}), task_type="worker", task_id=worker, rpc_layer="grpc"
        )
    else:
        hosts, worker = _from_environment()
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    addresses = [_address(host) for host in hosts]
    if not 0 <= worker < len(hosts):
        raise ValueError(f"`worker` must be from 0 to {len(hosts) - 1}, the numbers of the hosts, got {worker}.")
    _meet(addresses, worker, timeout_s)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        message = "`multi_worker` must be made before anything else of TensorFlow runs in this process."
        raise ValueError(message) from None


def _from_environment():
    """The hosts and this process's number, from `TF_CONFIG`: the chief, if there is one, and the workers."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        raise ValueError("`multi_worker` needs `hosts`, or the environment variable TF_CONFIG, got neither.")
    try:
        values = json.loads(text)
        chiefs, workers = values["cluster"].get("chief", []), values["cluster"]["worker"]
        kind, index = values["task"]["type"], int(values["task"]["index"])
        return [*chiefs, *workers], index + (len(chiefs) if kind == "worker" else 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"TF_CONFIG must be JSON with `cluster` and `task`, got {text!r}.") from None


def _address(host):
    name, colon, port = str(host).rpartition(":")
    if not colon or not name or not port.isdecimal():
        raise ValueError(f"A host must be given as name:port, got {host!r}.")
    return name, int(port)


def _meet(addresses, worker, timeout_s):
    """Waits until all hosts answer: TensorFlow itself would wait for an hour.

    It listens on this process's own port meanwhile, which TensorFlow takes over.
    """
    port = addresses[worker][1]
    try:
        listener = socket.create_server(("", port), backlog=len(addresses))
    except OSError as error:
        raise OSError(f"Port {port} of this worker cannot be used: {error.strerror}. Name another one.") from None
    deadline = time.monotonic() + timeout_s
    with listener:
        for number, (name, other) in enumerate(addresses):
            while number != worker:
                try:
                    socket.create_connection((name, other), timeout=5).close()
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise OSError(
                            f"Host {name}:{other} did not answer within {timeout_s:g} s: {error}. Start the same "
                            "command on all hosts."
                        ) from None
                    time.sleep(0.2)


def _tpu():
    """Untested."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"`tpu` needs a TPU, but none answers: {str(error).splitlines()[0]}") from None
    return tf.distribute.TPUStrategy(resolver)
