"""Every option of the trainer. TRL's are all given a value here, since their defaults change between releases.

What would make another algorithm of it, or isn't implemented, is refused with a sentence.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import trl
import yaml
from trl import GRPOConfig

from trainer.algorithm.losses import Clip, Normaliser
from trainer.algorithm.stages import StagePlan
from trainer.algorithm.truncation import Reading, RepeatTest, TruncationRule
from trainer.baselines import options_of

SUPPORTED = ("1.16",)
if ".".join(trl.__version__.split(".")[:2]) not in SUPPORTED:
    raise ImportError(
        f"TRL {trl.__version__} is installed and the trainer is tested with {', '.join(SUPPORTED)}, whose methods it "
        "overrides: pip install 'microcoder[trainer]'."
    )


@dataclass
class MicroCoderConfig(GRPOConfig):
    """Options of `MicroCoderGRPOTrainer`. Those without a comment are TRL's, whose documentation has them.

    Raises:
        ValueError: options contradict each other, or ask for what this trainer doesn't do.
    """

    # MicroCoder-GRPO: see docs/trainer.md. Temperatures are a text, such as "0.6,1.2", as a command line has it.
    truncation_rate: float = 0.2
    truncation_window: int = 128
    truncation_reading: str = "correct_or_incomplete"
    repeat_test: str = "literal"
    advantage_epsilon: float = 1e-6
    normaliser: str = "token_mean"
    temperatures: str = "1.2"
    temperature_origin: str = "The paper's constant temperature."
    stage_length: int | None = None
    diversity_floor: float | None = None
    # When nothing is judged for a process: attempts before all of them stop, and seconds between two.
    outage_attempts: int = 3
    outage_pause: float = 60.0
    # What baselines need, see trainer/baselines.py. `algorithm` is for reports: options make the algorithm.
    algorithm: str = "microcoder"
    drop_truncated: bool = False
    overlong_share: float = 0.0
    dynamic_sampling: bool = False
    dynamic_attempts: int = 10

    # The loss, as far as TRL has a say in it.
    beta: float = 0.0
    epsilon: float = 0.2
    epsilon_high: float | None = 0.28
    delta: float | None = None
    loss_type: str = "dapo"
    scale_rewards: str = "group"
    multi_objective_aggregation: str = "sum_then_normalize"
    reward_weights: list[float] | None = None
    importance_sampling_level: str = "token"
    mask_truncated_completions: bool = False
    top_entropy_quantile: float = 1.0
    entropy_coef: float = 0.0
    use_adaptive_entropy: bool = False
    entropy_coef_min: float = 0.0
    entropy_coef_max: float = 1.0
    entropy_coef_delta: float = 0.005
    entropy_target: float = 0.2
    off_policy_mask_threshold: float | None = None
    use_bias_correction_kl: bool = False
    router_aux_loss_coef: float | None = 0.0
    sapo_temperature_neg: float = 1.05
    sapo_temperature_pos: float = 1.0
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    sync_ref_model: bool = False
    ref_model_mixup_alpha: float = 0.6
    ref_model_sync_steps: int = 512

    # Generation. `temperature` is the first of `temperatures`.
    num_generations: int | None = 8
    num_generations_eval: int | None = None
    max_completion_length: int | None = 4096
    temperature: float = 1.2
    top_p: float = 1.0
    top_k: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    generation_kwargs: dict[str, Any] | str | None = None
    chat_template_kwargs: dict[str, Any] | str | None = None
    cache_implementation: str | None = None
    pad_to_multiple_of: int | str | None = "auto"
    ds3_gather_for_generation: bool = True
    max_tool_calling_iterations: int | None = None
    use_transformers_continuous_batching: bool = False
    transformers_continuous_batching_config: dict[str, Any] | str | None = None
    use_transformers_paged: bool = False
    use_vllm: bool = False
    vllm_mode: str = "colocate"
    vllm_model_impl: str = "vllm"
    vllm_enable_sleep_mode: bool = False
    vllm_structured_outputs_regex: str | None = None
    vllm_server_base_url: str | None = None
    vllm_server_host: str = "127.0.0.1"
    vllm_server_port: int = 8000
    vllm_server_timeout: float = 240.0
    vllm_group_port: int = 51216
    vllm_gpu_memory_utilization: float = 0.3
    vllm_max_model_length: int | None = None
    vllm_tensor_parallel_size: int = 1
    vllm_importance_sampling_correction: bool = False
    vllm_importance_sampling_mode: str = "sequence_mask"
    vllm_importance_sampling_clip_max: float | None = 3.0
    vllm_importance_sampling_clip_min: float | None = None
    vllm_importance_sampling_cap: float | None = None

    # Batches: a generation of `steps_per_generation` parts, of which each update takes `gradient_accumulation_steps`.
    per_device_train_batch_size: int = 8
    gradient_accumulation_steps: int = 1
    steps_per_generation: int = 2
    generation_batch_size: int | None = None
    num_iterations: int = 1
    shuffle_dataset: bool | None = True
    remove_unused_columns: bool | None = False

    # Optimizer and model.
    learning_rate: float = 1e-6
    lr_scheduler_type: str = "constant_with_warmup"
    warmup_steps: float = 10
    weight_decay: float = 0.1
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 1.0
    bf16: bool | None = True
    activation_checkpointing: bool | None = False
    gradient_checkpointing: bool | None = None
    model_init_kwargs: dict[str, Any] | str | None = None
    trust_remote_code: bool = False
    disable_dropout: bool = True
    cast_lm_head_to_fp32: bool = False

    # Logs and checkpoints. Without the callbacks' states a resumed run would begin at the first stage.
    restore_callback_states_from_checkpoint: bool = True
    report_to: str | list[str] | None = "tensorboard"
    logging_steps: float = 1
    log_completions: bool = True
    log_multimodal: bool = False
    num_completions_to_print: int | None = 0
    log_unique_prompts: bool = False
    log_completions_hub_repo: str | None = None

    def __post_init__(self) -> None:
        self.temperature = _read_temperatures(self.temperatures)[0]
        super().__post_init__()
        for name, value, reason in (
            ("loss_type", "dapo", "the loss is the clip-higher one; choose its mean by `normaliser`"),
            ("delta", None, "ratios are clipped on the side of the advantage alone"),
            ("importance_sampling_level", "token", "ratios are per token"),
            ("mask_truncated_completions", False, "it takes the place of the conditional mask, whatever the verdict"),
            ("top_entropy_quantile", 1.0, "every token counts"),
            ("entropy_coef", 0.0, "the loss has no entropy term"),
            ("use_adaptive_entropy", False, "the loss has no entropy term"),
            ("off_policy_mask_threshold", None, "no completion is left out for its ratios"),
            ("vllm_importance_sampling_correction", False, "it multiplies the loss by a factor that the paper lacks"),
        ):
            if getattr(self, name) != value:
                raise ValueError(f"The option {name} must be {value!r}, not {getattr(self, name)!r}: {reason}.")
        if self.steps_per_generation % self.gradient_accumulation_steps:
            raise ValueError(
                f"A generation has {self.steps_per_generation} parts and the optimizer steps after "
                f"{self.gradient_accumulation_steps}: make steps_per_generation a multiple of "
                "gradient_accumulation_steps, so that no step spans two generations."
            )
        if self.beta < 0:
            raise ValueError(f"The KL term is a penalty: its weight `beta` is 0 or more, not {self.beta:g}.")
        in_process = self.per_device_train_batch_size * self.steps_per_generation
        if self.dynamic_sampling and in_process % int(self.num_generations or 1):
            raise ValueError(
                f"Dynamic sampling replaces whole groups, and a process generates {in_process} completions, which "
                f"aren't groups of {self.num_generations}: change per_device_train_batch_size."
            )
        if self.dynamic_attempts < 1:
            raise ValueError(f"A generation takes 1 attempt or more, not {self.dynamic_attempts}.")
        if self.outage_attempts < 1:
            raise ValueError(f"Rewards are asked for once or more often, not {self.outage_attempts} times.")
        if self.save_strategy == "steps" and self.save_steps % self.updates_per_generation:
            raise ValueError(
                f"A checkpoint is saved every {self.save_steps:g} updates, and a generation serves "
                f"{self.updates_per_generation}: set save_steps to a multiple, or a resumed run repeats prompts."
            )

    @property
    def updates_per_generation(self) -> int:
        """How many times the optimizer steps on the completions of one generation."""
        return int(self.steps_per_generation * self.num_iterations // self.gradient_accumulation_steps)

    def make_rule(self, end_tokens: frozenset[int]) -> TruncationRule:
        """The truncation mask's rule."""
        return TruncationRule(
            limit=int(self.max_completion_length or 0),
            end_tokens=end_tokens,
            rate=self.truncation_rate,
            window=self.truncation_window,
            reading=Reading(self.truncation_reading),
            repeat_test=RepeatTest(self.repeat_test),
        )

    def make_plan(self) -> StagePlan:
        """The temperatures and their stages."""
        return StagePlan(
            temperatures=_read_temperatures(self.temperatures),
            origin=self.temperature_origin,
            length=self.stage_length,
            floor=self.diversity_floor,
        )

    def make_clip(self) -> Clip:
        """The bounds of the ratio."""
        return Clip(self.epsilon, self.epsilon if self.epsilon_high is None else self.epsilon_high)

    def make_normaliser(self) -> Normaliser:
        """What the loss is averaged over."""
        return Normaliser(self.normaliser)


def read_config(path: Path, *, algorithm: str | None = None, **changes: Any) -> MicroCoderConfig:
    """A configuration out of a YAML file: its own options, over them those of an algorithm, over them `changes`.

    The file's section `run` isn't looked at: it says what is trained, `trainer.runs` reads it.

    Raises:
        ValueError: the file has an option that isn't known, or one of them makes no sense.
    """
    values = {name: value for name, value in yaml.safe_load(path.read_text("utf-8")).items() if name != "run"}
    chosen = options_of(algorithm or values.get("algorithm", "microcoder"))
    values = {**values, **chosen, **changes}
    unknown = values.keys() - {field.name for field in fields(MicroCoderConfig)}
    if unknown:
        raise ValueError(f"{path.name} has options that aren't known: {', '.join(sorted(unknown))}.")
    return MicroCoderConfig(**values)


def _read_temperatures(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in str(text).split(","))
    except ValueError:
        raise ValueError(
            f"The temperatures {text!r} aren't numbers with commas between them, such as 0.6,1.2."
        ) from None
