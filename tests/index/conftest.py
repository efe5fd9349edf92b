"""A tiny checkpoint on disk, and the folders that tests index. Everything runs through the real rooms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import tiny
from index.forked import Forked
from varsdoc import VarsDoc


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    made = Forked(tmp_path_factory.mktemp("forked"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    boto3.client("s3", endpoint_url=settings["AWS_ENDPOINT"], region_name="us-east-1").create_bucket(Bucket="papers")
    yield "s3://papers"
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    server.stop()


def save_checkpoint(folder: Path, seed: int = 0, variants: int = 3) -> Path:
    model = tiny.model(variants=variants, seed=seed, max_visual_tokens=24)
    model.reconfigure(model.config.with_(trained=True))  # random, but not to be warned about
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def other_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("models") / "other", seed=7, variants=2)


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> VarsDoc:
    return VarsDoc.from_pretrained(checkpoint, device="cpu")
