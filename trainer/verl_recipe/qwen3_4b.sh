#!/usr/bin/env bash
# MicroCoder-GRPO on Qwen3-4B-Instruct-2507 by verl 0.9, on one machine of 8 GPUs; further options go to verl as they are.
#
#   MICROCODER_URL=http://judge:8000 trainer/verl_recipe/qwen3_4b.sh TRAIN.parquet VALIDATION.parquet [OPTION=VALUE …]
#
# verl has an environment of its own: pip install 'verl[verl-core,vllm]' microcoder-client, this checkout on PYTHONPATH.
# Rows: data_source, prompt, reward_model.ground_truth (docs/trainers/verl.md). Not published and so ours: clip 0.2/0.28.
set -euo pipefail
if (($# < 2)); then
    sed -n '4p' "$0" >&2
    exit 2
fi
train=$1 validation=$2
shift 2
cd "$(dirname "$0")/../.."
export PYTHONPATH=$PWD:$PWD/client${PYTHONPATH:+:$PYTHONPATH}
export VERL_USE_EXTERNAL_MODULES=trainer.verl_recipe.masked_trainer${VERL_USE_EXTERNAL_MODULES:+,$VERL_USE_EXTERNAL_MODULES}
exec python3 -m verl.trainer.main_ppo \
    trainer.v1.trainer_mode=microcoder \
    data.train_files="$train" \
    data.val_files="$validation" \
    data.train_batch_size=64 \
    data.max_prompt_length=2048 \
    data.max_response_length=4096 \
    data.filter_overlong_prompts=True \
    actor_rollout_ref.model.path=Qwen/Qwen3-4B-Instruct-2507 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.clip_ratio_low=0.2 \
    actor_rollout_ref.actor.clip_ratio_high=0.28 \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.temperature=1.2 \
    actor_rollout_ref.rollout.top_p=1.0 \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    +algorithm.microcoder.rate=0.2 \
    +algorithm.microcoder.window=128 \
    reward.custom_reward_function.path=pkg://microcoder_client.rewards.verl \
    reward.custom_reward_function.name=compute_score \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=1 \
    trainer.save_freq=20 \
    trainer.test_freq=20 \
    "$@"
