"""One backbone, probes, branches, heads, processor, checkpoints -> embeddings."""

from varsdoc.image import ImageLike, read_image
from varsdoc.model.checkpoint import UntrainedWarning, nano_config
from varsdoc.model.config import LoraSettings, VarsConfig
from varsdoc.model.embeddings import Encoded, PageEmbedding
from varsdoc.model.lora import trainable_parameters
from varsdoc.model.processor import PageBatch, Processor, QueryBatch
from varsdoc.model.varsdoc import VarsDoc

__all__ = [
    "Encoded",
    "ImageLike",
    "LoraSettings",
    "PageBatch",
    "PageEmbedding",
    "Processor",
    "QueryBatch",
    "UntrainedWarning",
    "VarsConfig",
    "VarsDoc",
    "nano_config",
    "read_image",
    "trainable_parameters",
]
