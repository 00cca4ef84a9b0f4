"""Constructors of other libraries that take a `device=`, and what they do without one.

One line each: the qualified name, the parameter, and its default. The default is "cpu", "cuda" (which raises
on a machine without CUDA), or "auto": CUDA where there is any, and then the current GPU. A library belongs
here if its default is written in its signature or documentation, and if what it makes meets tensors of the
program, or works on the wrong device without a word. Only libraries whose default has stayed the same over
their versions are listed.
"""

from __future__ import annotations

CONSTRUCTORS: dict[str, tuple[str, str]] = {
    # https://github.com/mlfoundations/open_clip: device: Union[str, torch.device] = "cpu"
    "open_clip.create_model_and_transforms": ("device", "cpu"),
    "open_clip.create_model": ("device", "cpu"),
    "open_clip.create_model_from_pretrained": ("device", "cpu"),
    # https://github.com/timesler/facenet-pytorch: device=None is the CPU
    "facenet_pytorch.MTCNN": ("device", "cpu"),
    "facenet_pytorch.InceptionResnetV1": ("device", "cpu"),
    # https://github.com/unitaryai/detoxify: device="cpu"
    "detoxify.Detoxify": ("device", "cpu"),
    # https://github.com/m-bain/whisperX: device="cpu"
    "whisperx.DiarizationPipeline": ("device", "cpu"),
    "whisperx.diarize.DiarizationPipeline": ("device", "cpu"),
    # https://github.com/facebookresearch/sam2: device="cuda"
    "sam2.build_sam.build_sam2": ("device", "cuda"),
    "sam2.build_sam.build_sam2_video_predictor": ("device", "cuda"),
    # https://github.com/IDEA-Research/GroundingDINO: device: str = "cuda"
    "groundingdino.util.inference.load_model": ("device", "cuda"),
    "groundingdino.util.inference.predict": ("device", "cuda"),
    "groundingdino.util.inference.Model": ("device", "cuda"),
    # https://github.com/xinntao/facexlib: device="cuda"
    "facexlib.detection.init_detection_model": ("device", "cuda"),
    "facexlib.parsing.init_parsing_model": ("device", "cuda"),
    # https://sbert.net: "If None, checks if a GPU can be used"
    "sentence_transformers.SentenceTransformer": ("device", "auto"),
    "sentence_transformers.CrossEncoder": ("device", "auto"),
    "sentence_transformers.cross_encoder.CrossEncoder": ("device", "auto"),
    "InstructorEmbedding.INSTRUCTOR": ("device", "auto"),
    "llama_index.embeddings.huggingface.HuggingFaceEmbedding": ("device", "auto"),
    "llama_index.embeddings.HuggingFaceEmbedding": ("device", "auto"),  # before version 0.10
    # https://github.com/openai/whisper and https://github.com/openai/CLIP: CUDA if available
    "whisper.load_model": ("device", "auto"),
    "clip.load": ("device", "auto"),
}
LIBRARIES = tuple(sorted({name.partition(".")[0] for name in CONSTRUCTORS}))
