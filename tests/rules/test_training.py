"""Base training arguments: hits, and what stands one step beside them and must be silent."""

from __future__ import annotations

import pytest

from alula.run.job import Cluster

from .conftest import Checker

DATA = "--dataset data.jsonl"
MODEL = f"--model Qwen/Qwen3-8B {DATA}"
SFT = f"swift sft {MODEL}"
VAL = f"{SFT} --val_dataset val.jsonl"
DPO = f"swift rlhf --rlhf_type dpo {MODEL}"

HITS = [
    ("TRN001", f"swift sft {DATA}", "no --model"),
    ("TRN001", f"swift rlhf --rlhf_type dpo {DATA} --adapters out/checkpoint-1", "--adapters alone"),
    ("TRN001", f'swift sft --model "$UNSET" {DATA}', "--model is empty"),
    ("TRN001", f"swift sft --resume_from_checkpoint c {DATA}", "no --model"),
    ("TRN002", "swift sft --model Qwen/Qwen3-8B", "no --dataset"),
    ("TRN002", "swift pt --model Qwen/Qwen3-8B --val_dataset val.jsonl", "no --dataset"),
    ("TRN003", f"{SFT} --adapters Qwen/Qwen3-8B", "--model"),
    ("TRN004", f"{SFT} --model_type qwen33", "Qwen/Qwen3-8B is qwen3"),
    ("TRN004", f"swift sft --model ./m --model_type llama3_2 {DATA}", "what was llama3_2 in 3.x is llama"),
    ("TRN005", f"{SFT} --template qwen33", "did you mean qwen3?"),
    ("TRN006", f"swift sft --model ./m --model_type qwen3 {DATA}", "add --template"),
    ("TRN007", f"{SFT} --task_type seq_cls", "--num_labels"),
    ("TRN008", f"{SFT} --rope_scaling yarn", "--max_model_len"),
    ("TRN008", f"{SFT} --rope_scaling long --max_model_len 65536", "neither linear"),
    ("TRN008", f"{SFT} --rope_scaling '{{\"type\": \"yarn\"}}'", "no factor"),
    ("TRN008", f"{SFT} --rope_scaling 4", "must be a name or a JSON object"),
    ("TRN009", f"{SFT} --lr_scheduler_kwargs min_lr=1e-6", "no JSON and no file"),
    ("TRN009", f"{SFT} --model_kwargs None", "YAML null"),
    ("TRN009", f"{SFT} --model_kwargs 5", "must be a JSON object"),
    ("TRN009", f"{SFT} --mrl_dims '{{\"small\": 1}}'", "keys must be dimensions"),
    ("TRN009", f"{SFT} --max_memory 20GB", "no JSON"),
    ("TRN009", f"{SFT} --eval_use_evalscope true --eval_dataset_args x", "no JSON"),
    ("TRN010", f"{SFT} --optimizer muonn", "muon"),
    ("TRN010", f"{SFT} --callbacks early_stop earlystop", "earlystop is not registered"),
    ("TRN010", f"{SFT} --loss_scale last_round+herms", "`herms` is not registered"),
    ("TRN010", f"{SFT} --loss_type infonse", "infonse"),
    ("TRN011", f"{SFT} --attn_impl fa2", "flash_attn"),
    ("TRN012", f"{SFT} --resume_from_checkpoint true", "wants the folder"),
    ("TRN013", f"{SFT} --report_to swanlab --swanlab_notification_method email --swanlab_sender_email a@b.c", "swanlab_receiver_email"),
    ("TRN020", f"{SFT} --streaming true", "--max_steps"),
    ("TRN020", f"NPROC_PER_NODE=8 {DPO} --streaming true --per_device_train_batch_size 2", "2 per device × 8 processes"),
    ("TRN021", f"{SFT} --streaming true --max_steps 9 --lazy_tokenize true", "--streaming true"),
    ("TRN022", "swift sft --model Qwen/Qwen3-8B --cached_dataset c --streaming true --max_steps 9", "--cached_dataset"),
    ("TRN023", f"{DPO} --truncation_strategy split", "`swift rlhf`"),
    ("TRN023", f"swift pt {MODEL} --truncation_strategy split --lazy_tokenize true", "cannot be lazy"),
    ("TRN024", "swift sft --model Qwen/Qwen3-8B --dataset 'a/b#1k'", "`1k`"),
    ("TRN024", "megatron sft --model Qwen/Qwen3-8B --dataset 'a/b#0'", "number of rows"),
    ("TRN025", f"{SFT} --eval_strategy steps", "no data to evaluate on"),
    ("TRN025", f"{SFT} --eval_strategy epoch --streaming true --split_dataset_ratio 0.1 --max_steps 5", "a stream is not split"),
    ("TRN026", f"{SFT} --split_dataset_ratio 1", "0 ≤ share < 1"),
    ("TRN027", "swift sft --model Qwen/Qwen3-8B --dataset a.jsonl b.jsonl --interleave_prob 0.5 0.6", "adds up to 1.1"),
    ("TRN027", f"{SFT} --interleave_prob 0.5 0.5", "2 probabilities for 1 data sets"),
    ("TRN028", f"{VAL} --split_dataset_ratio 0.1", "is ignored"),
    ("TRN030", f"{SFT} --load_best_model_at_end true", "no validation data"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --eval_strategy epoch", "checkpoints steps, evaluation epoch"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --eval_steps 30 --save_steps 100", "a multiple of eval_steps 30"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --eval_steps 50 --save_steps 0.1", "a share of the run"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --eval_steps 0 --logging_steps 30 --save_steps 100", "a multiple of eval_steps 30"),
    ("TRN031", f"{VAL} --save_strategy best", "set --eval_strategy"),
    ("TRN031", f"{VAL} --eval_strategy step", "none of no, steps, epoch"),
    ("TRN032", f"{SFT} --save_steps 1.5", "whole number"),
    ("TRN032", f"{VAL} --eval_steps 2.5", "--eval_steps 2.5"),
    ("TRN032", f"{SFT} --logging_steps 0", "1 or more"),
    ("TRN032", f"{SFT} --torch_empty_cache_steps 0", "1 or more"),
    ("TRN033", f"{SFT} --lr_scheduler_type cosin", "is none of"),
    ("TRN033", f"{SFT} --lr_scheduler_type reduce_lr_on_plateau", "nothing is evaluated"),
    ("TRN034", f"{SFT} --warmup_ratio 0.1 --warmup_steps 10", "only one"),
    ("TRN034", f"{SFT} --warmup_ratio 5", "--warmup_steps 5"),
    ("TRN034", f"{SFT} --warmup_steps -1", "negative"),
    ("TRN035", f"{SFT} --fp16 true --bf16 true", "--fp16 true and --bf16 true"),
    ("TRN035", f"{SFT} --torch_dtype bfloat16 --fp16 true", "torch_dtype bfloat16"),
    ("TRN035", f"{SFT} --torch_dtype float32 --bf16 true", "torch_dtype float32"),
    ("TRN035", f"{SFT} --fp16 true", "which its checkpoint has"),
    ("TRN035", f"{SFT} --fp16_full_eval true --bf16_full_eval true", "exclude each other"),
    ("TRN036", f"{SFT} --dataloader_num_workers 0 --dataloader_prefetch_factor 2", "needs workers"),
    ("TRN037", f"{SFT} --per_device_train_batch_size 0", "at least 1"),
    ("TRN038", f"{SFT} --gradient_accumulation_steps 0", "above 0"),
    ("TRN038", f"{SFT} --per_device_train_batch_size -2", "-2"),
    ("TRN039", f"{SFT} --learning_rate 0", "nothing is learnt"),
    ("TRN039", f"{SFT} --learning_rate 1", "a lost exponent"),
    ("TRN040", f"swift rlhf --rlhf_type ppo --reward_model r {MODEL} --tuner_type full --learning_rate 3e-5", "PPO"),
    ("TRN041", f"{SFT} --save_strategy no", "not saved"),
    ("TRN041", f"{SFT} --save_strategy best", "only the last step"),
    ("TRN042", f"{SFT} --max_steps 1000 --save_steps 5000", "--max_steps 1000"),
    ("TRN042", "swift sft --model Qwen/Qwen3-8B --dataset a/b#16000 --num_train_epochs 1 --save_steps 2000", "16000 rows give 1000 optimizer steps"),
    ("TRN043", f"swift rlhf --rlhf_type ppo --reward_model r {MODEL} --tuner_type full", "is not given: 1e-05"),
    ("TRN050", f"{SFT} --packing true", "--attn_impl is not given"),
    ("TRN050", f"{DPO} --padding_free true --attn_impl sdpa", "--attn_impl sdpa"),
    ("TRN051", f"swift rlhf --rlhf_type orpo {MODEL} --packing true --attn_impl flash_attn", "only with grpo, dpo, kto, gkd"),
    ("TRN052", f"NPROC_PER_NODE=4 swift rlhf --rlhf_type kto {MODEL} --sequence_parallel_size 2", "only with grpo and dpo"),
    ("TRN053", f"NPROC_PER_NODE=8 {SFT} --sequence_parallel_size 3", "one of 1, 2, 4, 8"),
    ("TRN053", f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct {DATA} --sequence_parallel_size 8", "gcd(4, 8) = 4"),
    ("TRN054", f"NPROC_PER_NODE=8 {DPO} --sequence_parallel_size 4 --use_logits_to_keep true", "the first step fails"),
    ("TRN055", f"{SFT} --deepspeed zero-3", "did you mean zero3?"),
    ("TRN055", f"{SFT} --deepspeed conf/ds.yaml", "no preset, no file and no JSON"),
    ("TRN055", f"{SFT} --deepspeed None", "YAML null"),
    ("TRN055", f"{SFT} --deepspeed '[1]'", "is JSON, but no object"),
    ("TRN056", f"NPROC_PER_NODE=2 {SFT} --deepspeed zero2 --fsdp fsdp2", "exclude each other"),
    ("TRN057", f"NPROC_PER_NODE=2 {SFT} --fsdp full_shard", "write fsdp2"),
    ("TRN057", f"NPROC_PER_NODE=2 {SFT} --save_only_model true --fsdp '{{\"fsdp\": \"full_shard\"}}'", "FULL_STATE_DICT"),
    ("TRN058", f"{SFT} --zero_hpz_partition_size 8", "does nothing without --deepspeed"),
    ("TRN058", f"{SFT} --deepspeed zero2 --zero_hpz_partition_size 8", "is for zero3"),
    ("TRN058", f"{SFT} --deepspeed zero3 --deepspeed_autotp_size 2", "is for zero2"),
    ("TRN059", f"{SFT} --deepspeed '{{}}' --zero_hpz_partition_size 8", "`zero_optimization`"),
    ("TRN060", f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-30B-A3B {DATA} --deepspeed zero3", "128 experts"),
    ("TRN060", f"NPROC_PER_NODE=8 swift sft --model models/Qwen3-30B-A3B {DATA} --deepspeed zero3_offload", "128 experts"),
    ("TRN061", f"swift sft --model OpenBMB/MiniCPM-V-4_5 {DATA} --packing true --attn_impl flash_attn", "minicpmv4_5"),
    ("TRN061", f"swift sft --model Qwen/Qwen2-Audio-7B-Instruct {DATA} --padding_free true --attn_impl flash_attn", "needs padding"),
    ("TRN061", f"swift sft --model openai-mirror/gpt-oss-20b {DATA} --packing true --attn_impl flash_attn", "gpt_oss"),
    ("TRN078", f"NPROC_PER_NODE=8 {SFT} --quant_method bnb --quant_bits 4 --deepspeed zero3", "--bnb_4bit_quant_storage bfloat16"),
    ("TRN078", f"NPROC_PER_NODE=8 {SFT} --quant_method bnb --quant_bits 4 --fsdp fsdp2", "FSDP2"),
    ("TRN070", f"{SFT} --tuner_type qlora", "--quant_method bnb"),
    ("TRN070", f"{SFT} --tuner_type loraa", "is no tuner"),
    ("TRN071", f"{SFT} --tuner_type full --adapters out/c", "is not loaded"),
    ("TRN072", f"{SFT} --adapters a b", "2 adapters"),
    ("TRN073", f"{SFT} --tuner_type full --lora_rank 8", "--lora_rank"),
    ("TRN073", f"{SFT} --freeze_parameters_ratio 0.5", "lora is the default"),
    ("TRN074", f"{SFT} --quant_method hqq", "1, 2, 3, 4, 8"),
    ("TRN074", f"{SFT} --quant_method bnb --quant_bits 3", "4, 8"),
    ("TRN074", "swift rollout --model Qwen/Qwen3-8B --quant_method eetq --quant_bits 4", "8"),
    ("TRN075", f"{SFT} --quant_bits 4", "quantises nothing"),
    ("TRN076", f"{SFT} --tuner_type full --quant_method bnb --quant_bits 4", "--tuner_type lora"),
    ("TRN076", f"swift sft --model Qwen/Qwen3-8B-AWQ {DATA} --tuner_type full", "quantised weights"),
    ("TRN077", f"{SFT} --lisa_activated_layers 2", "--tuner_type full"),
]

SILENT = [
    ("TRN001", f"swift sft --resume_from_checkpoint c --resume_only_model true {DATA}"),
    ("TRN001", f"swift sft --load_args true --adapters c {DATA}"),
    ("TRN001", f"swift sft $(flags) {DATA}"),
    ("TRN001", f"swift sft --model $(pick) {DATA}"),
    ("TRN001", "swift infer --adapters c"),
    ("TRN002", "swift sft --model Qwen/Qwen3-8B --cached_dataset c"),
    ("TRN002", "swift sft --model Qwen/Qwen3-8B $(flags)"),
    ("TRN003", f"{SFT} --adapters output/Qwen3-8B"),  # a folder of that name may hold an adapter
    ("TRN004", f"{SFT} --model_type qwen3"),
    ("TRN004", f"{SFT} --model_type my_model --external_plugins plugin.py"),
    ("TRN004", f"{SFT} --model_type $(pick)"),
    ("TRN005", f"{SFT} --template qwen3_thinking"),
    ("TRN005", f"{SFT} --template mine --custom_register_path plugin.py"),
    ("TRN006", f"swift sft --model Qwen/Qwen3-8B --model_type qwen3 {DATA}"),
    ("TRN006", f"swift sft --model out/checkpoint-100 --model_type qwen3 {DATA}"),  # its args.json tells the template
    ("TRN006", f"swift sft --model ./m --model_type qwen3 --template qwen3 {DATA}"),
    ("TRN007", f"{SFT} --task_type seq_cls --num_labels 2"),
    ("TRN007", f"swift rlhf --rlhf_type rm {MODEL}"),
    ("TRN008", f"{SFT} --rope_scaling yarn --max_model_len 65536"),
    ("TRN008", f"{SFT} --rope_scaling '{{\"type\": \"yarn\", \"factor\": 2}}'"),
    ("TRN008", f"{SFT} --rope_scaling '{{\"type\": \"default\"}}'"),
    ("TRN008", "swift infer --model out/v0/checkpoint-9 --rope_scaling yarn"),  # its args.json may tell the length
    ("TRN074", "swift infer --adapters out/v0/checkpoint-9 --quant_method bnb"),
    ("TRN007", "swift infer --model out/v0/checkpoint-9 --task_type seq_cls"),
    ("TRN009", f"{SFT} --lr_scheduler_kwargs '{{\"min_lr\": 1e-6}}'"),
    ("TRN009", f"{SFT} --lr_scheduler_kwargs \"{{'min_lr': 1e-6}}\""),  # repaired
    ("TRN009", f"{SFT} --model_kwargs kwargs.json"),  # may lie where the run starts
    ("TRN009", f"{SFT} --max_memory '{{0: \"20GB\"}}'"),
    ("TRN009", f"{SFT} --eval_dataset_args x"),  # read with evalscope only
    ("TRN010", f"{SFT} --optimizer muon --callbacks early_stop --loss_scale last_round+hermes"),
    ("TRN010", f"{SFT} --callbacks mine --external_plugins plugin.py"),
    ("TRN010", f"{DPO} --loss_type hinge"),  # those of rlhf are other ones
    ("TRN011", f"{SFT} --attn_impl sdpa"),
    ("TRN011", f"{SFT} --attn_impl kernels-community/flash-attn"),
    ("TRN012", f"{SFT} --resume_from_checkpoint output/v0/checkpoint-10"),
    ("TRN013", f"{SFT} --swanlab_notification_method telegram"),  # not reported to swanlab
    ("TRN020", f"{SFT} --streaming true --max_steps 100"),
    ("TRN020", f"{SFT} --streaming true --max_steps $(count)"),
    ("TRN020", f"{SFT} --streaming false"),
    ("TRN021", f"{SFT} --packing true --attn_impl flash_attn"),
    ("TRN021", f"{SFT} --lazy_tokenize true"),
    ("TRN023", f"swift pt {MODEL} --truncation_strategy split"),
    ("TRN023", f"{SFT} --use_chat_template false --truncation_strategy split"),
    ("TRN023", f"{SFT} --truncation_strategy left"),
    ("TRN024", "swift sft --model Qwen/Qwen3-8B --dataset 'a/b:sub#500'"),
    ("TRN024", "swift sft --model Qwen/Qwen3-8B --dataset a/b#$(count)"),
    ("TRN025", f"{VAL} --eval_strategy steps"),
    ("TRN025", f"{SFT} --eval_strategy steps --split_dataset_ratio 0.01"),
    ("TRN025", f"{SFT} --eval_strategy no"),
    ("TRN025", f"{SFT} --eval_steps 50"),  # a left-over, nobody asked for evaluation
    ("TRN026", f"{SFT} --split_dataset_ratio 0.5"),
    ("TRN027", "swift sft --model Qwen/Qwen3-8B --dataset a.jsonl b.jsonl --interleave_prob 0.3 0.7"),
    ("TRN028", f"{VAL} --split_dataset_ratio 0"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --eval_steps 50 --save_steps 100"),
    ("TRN030", f"{VAL} --load_best_model_at_end true"),
    ("TRN030", f"{SFT} --load_best_model_at_end true --save_strategy no --eval_strategy no"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --save_strategy best --eval_strategy steps"),
    ("TRN030", f"{VAL} --load_best_model_at_end true --eval_steps 0.1 --save_steps 0.2"),
    ("TRN030", f"{SFT} --load_best_model_at_end true --val_dataset $(pick) --save_steps $(count)"),
    ("TRN031", f"{SFT} --eval_strategy step"),  # without data it is `no` before anyone looks
    ("TRN031", f"{VAL} --save_strategy best --eval_strategy epoch"),
    ("TRN032", f"{SFT} --save_steps 0.5"),
    ("TRN032", f"{SFT} --save_strategy epoch --save_steps 1.5"),
    ("TRN032", f"{SFT} --eval_steps 2.5"),  # nothing is evaluated
    ("TRN032", f"{SFT} --logging_strategy no --logging_steps 0"),
    ("TRN033", f"{SFT} --lr_scheduler_type cosine_with_min_lr"),
    ("TRN033", f"{VAL} --lr_scheduler_type reduce_lr_on_plateau"),
    ("TRN034", f"{SFT} --warmup_ratio 0.1 --warmup_steps 0"),
    ("TRN035", f"{SFT} --torch_dtype float16 --fp16 true"),
    ("TRN035", f"{SFT} --fp16 true --bf16 false"),
    ("TRN035", f"swift sft --model Qwen/Qwen2.5-7B-Instruct-AWQ {DATA} --fp16 true"),  # such checkpoints are float16
    ("TRN035", f"swift sft --model my/own {DATA} --fp16 true"),
    ("TRN036", f"{SFT} --dataloader_num_workers 2 --dataloader_prefetch_factor 2"),
    ("TRN037", f"{SFT} --per_device_train_batch_size 0 --gradient_accumulation_steps 1"),  # fails later: TRN038
    ("TRN038", f"{SFT} --num_train_epochs 0 --max_steps 10"),
    ("TRN039", f"{SFT} --learning_rate 1e-4"),
    ("TRN039", f"{SFT} --learning_rate 0 --vit_lr 1e-5"),
    ("TRN040", f"swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy --tuner_type full --learning_rate 1e-6"),
    ("TRN040", f"swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy --learning_rate 1e-5"),  # LoRA
    ("TRN040", f"{DPO} --tuner_type full --learning_rate 1e-5"),
    ("TRN043", f"swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy"),
    ("TRN041", f"{VAL} --save_strategy best --eval_strategy steps"),
    ("TRN042", f"{SFT} --max_steps 1000 --save_steps 500"),
    ("TRN042", f"{SFT} --max_steps 100 --save_steps 500"),  # too short to matter
    ("TRN042", f"{SFT} --max_steps 400"),
    ("TRN042", "swift sft --model Qwen/Qwen3-8B --dataset a/b#16000 --num_train_epochs 3 --save_steps 2000"),
    ("TRN050", f"{SFT} --packing true --attn_impl flash_attention_3"),
    ("TRN050", f"{SFT} --packing $(pick)"),
    ("TRN050", f"megatron sft {MODEL} --packing true"),
    ("TRN051", f"{DPO} --packing true --attn_impl flash_attn"),
    ("TRN052", f"NPROC_PER_NODE=2 {DPO} --sequence_parallel_size 2"),
    ("TRN053", f"NPROC_PER_NODE=8 {SFT} --sequence_parallel_size 8"),  # 8 KV heads
    ("TRN053", f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct {DATA} --sequence_parallel_size 8 --padding_free true --attn_impl flash_attn"),
    ("TRN053", f"NPROC_PER_NODE=$(count) swift sft --model my/own {DATA} --sequence_parallel_size 3"),
    ("TRN054", f"NPROC_PER_NODE=8 {SFT} --use_logits_to_keep true"),
    ("TRN054", f"NPROC_PER_NODE=8 {SFT} --sequence_parallel_size 4 --use_logits_to_keep false"),
    ("TRN055", f"{SFT} --deepspeed zero3_offload"),
    ("TRN055", f"{SFT} --deepspeed conf/ds.json"),
    ("TRN055", f"{SFT} --deepspeed $(pick)"),
    ("TRN056", f"NPROC_PER_NODE=2 {SFT} --fsdp fsdp2"),
    ("TRN057", f"NPROC_PER_NODE=2 {SFT} --save_only_model true --fsdp '{{\"fsdp_config\": {{\"state_dict_type\": \"FULL_STATE_DICT\"}}}}'"),
    ("TRN057", f"NPROC_PER_NODE=2 {SFT} --save_only_model true --deepspeed zero3"),
    ("TRN058", f"{SFT} --deepspeed zero3 --zero_hpz_partition_size 8"),
    ("TRN058", f"{SFT} --deepspeed zero2 --deepspeed_autotp_size 2"),
    ("TRN058", f"{SFT} --deepspeed conf/ds.json --zero_hpz_partition_size 8"),
    ("TRN059", f"{SFT} --deepspeed '{{\"zero_optimization\": {{\"stage\": 3}}}}' --zero_hpz_partition_size 8"),
    ("TRN060", f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-30B-A3B {DATA} --deepspeed zero2"),
    ("TRN060", f"NPROC_PER_NODE=8 {SFT} --deepspeed zero3"),
    ("TRN061", f"swift sft --model Qwen/Qwen2.5-VL-7B-Instruct {DATA} --packing true --attn_impl flash_attn"),
    ("TRN061", f"swift sft --model OpenGVLab/InternVL3-8B {DATA} --packing true --attn_impl flash_attn"),
    ("TRN061", f"{SFT} --packing true --attn_impl flash_attn"),
    ("TRN061", f"swift sft --model my/own {DATA} --packing true --attn_impl flash_attn"),
    ("TRN061", f"swift sft --model OpenBMB/MiniCPM-V-4_5 {DATA}"),
    ("TRN078", f"NPROC_PER_NODE=8 {SFT} --quant_method bnb --quant_bits 8 --deepspeed zero3"),
    ("TRN078", f"NPROC_PER_NODE=8 {SFT} --quant_method bnb --quant_bits 4 --deepspeed zero2"),
    ("TRN078", f"NPROC_PER_NODE=1 {SFT} --quant_method bnb --quant_bits 4 --deepspeed zero3"),
    ("TRN070", f"{SFT} --tuner_type adalora"),
    ("TRN070", f"{SFT} --tuner_type mine --external_plugins plugin.py"),
    ("TRN071", f"{SFT} --tuner_type lora --adapters out/c"),
    ("TRN072", "swift infer --model m --adapters a b"),
    ("TRN073", f"{SFT} --lora_rank 8"),
    ("TRN074", f"{SFT} --quant_method fp8"),
    ("TRN074", f"{SFT} --quant_method bnb --quant_bits $(pick)"),
    ("TRN075", f"{SFT} --quant_bits 4 --quant_method bnb"),
    ("TRN076", f"swift sft --model Qwen/Qwen3-8B-AWQ {DATA}"),
    ("TRN077", f"{SFT} --tuner_type full --lisa_activated_layers 2"),
]


@pytest.mark.parametrize(("code", "script", "says"), HITS)
def test_said(check: Checker, code: str, script: str, says: str) -> None:
    found = [finding for finding in check(script) if finding.code == code]
    assert found, f"{code} is silent"
    assert any(says in finding.message for finding in found), [finding.message for finding in found]


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_silent(check: Checker, code: str, script: str) -> None:
    assert [finding.message for finding in check(script) if finding.code == code] == []


def codes(check: Checker, script: str, **options: object) -> set[str]:
    return {finding.code for finding in check(script, **options)}


def test_what_lies_on_the_disk_decides(check: Checker) -> None:
    """A folder with a whole model is no adapter; a configuration that is there is read."""
    files = {"whole/config.json": "{}", "adapter/adapter_config.json": "{}", "adapter/config.json": "{}", "zero": '{"zero_optimization": {"stage": 2}}', "broken": "{"}
    assert "TRN003" in codes(check, f"{SFT} --adapters whole", files=files)
    assert "TRN003" not in codes(check, f"{SFT} --adapters adapter", files=files)
    assert "TRN003" not in codes(check, f"{SFT} --adapters elsewhere", files=files)
    assert "TRN055" not in codes(check, f"{SFT} --deepspeed zero", files=files)
    assert "TRN055" in codes(check, f"{SFT} --deepspeed broken", files=files)
    assert "TRN058" in codes(check, f"{SFT} --deepspeed zero --zero_hpz_partition_size 8", files=files)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--system prompts/sytem.txt", "did you mean prompts/system.txt?"),
        ("--custom_dataset_info prompts/info.json", "no such file in prompts"),
        ("--system prompts/system.txt", None),
        ("--system elsewhere/system.txt", None),  # for another machine
        ("--system sytem.txt", None),  # where the run starts is not known
        ("--system 'Answer prompts/briefly'", None),
    ],
)
def test_files_beside_others(check: Checker, flags: str, said: str | None) -> None:
    found = [f.message for f in check(f"{SFT} {flags}", {"prompts/system.txt": "x"}) if f.code == "TRN014"]
    assert (said is None and not found) or (said is not None and said in found[0]), found


def test_rows_that_are_counted(check: Checker) -> None:
    rows = "".join('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n' for _ in range(4800))
    found = [f.message for f in check(f"{SFT} --num_train_epochs 1 --save_steps 1000", {"data.jsonl": rows}) if f.code == "TRN042"]
    assert found == ["--save_steps 1000 is never reached: 4800 rows give 300 optimizer steps; only the last step is saved, for example --save_steps 30"]


@pytest.mark.parametrize(
    ("code", "script", "older", "newer"),
    [
        ("TRN034", f"{SFT} --warmup_ratio 0.1 --warmup_steps 10", "4.4.2", "4.5.3"),
        ("TRN013", f"{SFT} --report_to swanlab --swanlab_notification_method telegram", "3.11.3", "3.12.6"),
        ("TRN010", f"{SFT} --callbacks earlystop", "3.12.6", "4.0.4"),
    ],
)
def test_checks_that_came_later(check: Checker, code: str, script: str, older: str, newer: str) -> None:
    assert code not in codes(check, script, version=older)
    assert code in codes(check, script, version=newer)


def test_checks_that_were_stricter(check: Checker) -> None:
    """KTO packs since 3.9, and flash_attention_4 counts since 4.2."""
    kto = f"swift rlhf --rlhf_type kto {MODEL} --gradient_accumulation_steps 4 --padding_free true --attn_impl flash_attn"
    assert "TRN051" in codes(check, kto, version="3.8.3")
    assert "TRN051" not in codes(check, kto, version="3.9.3")
    four = f"{SFT} --packing true --attn_impl flash_attention_4"
    assert "TRN050" in codes(check, four, version="4.1.3")
    assert "TRN050" not in codes(check, four, version="4.2.3")


@pytest.mark.parametrize(
    ("script", "accelerator", "code"),
    [
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-72B-Instruct {DATA}", "H100", "MEM002"),  # 135 GiB on each
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-72B-Instruct {DATA} --deepspeed zero3", "H100", None),
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct {DATA}", "H100", None),
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-14B-Instruct {DATA} --tuner_type full", "H100", "MEM002"),  # weights, gradients, two moments
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-14B-Instruct {DATA} --tuner_type full --deepspeed zero2", "H100", None),
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-72B-Instruct {DATA} --tuner_type full --deepspeed zero3_offload", "H100", None),
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-72B-Instruct-AWQ {DATA}", "H100", None),
        (f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-72B-Instruct {DATA}", None, None),  # a larger device may have it
        (f"NPROC_PER_NODE=7 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --teacher_model Qwen/Qwen3-235B-A22B {DATA} --tuner_type full --deepspeed zero2 --teacher_deepspeed zero3", "A100-80GB", "MEM002"),
        (f"NPROC_PER_NODE=7 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --teacher_model Qwen/Qwen3-235B-A22B {DATA} --deepspeed zero3 --offload_teacher_model true", "A100-80GB", None),
        ("swift rollout --model Qwen/Qwen2.5-72B-Instruct", "H100", "MEM003"),
        ("swift rollout --model Qwen/Qwen2.5-72B-Instruct --vllm_tensor_parallel_size 4", "H100", None),
        ("swift rollout --model Qwen/Qwen2.5-72B-Instruct-AWQ", "H100", None),
        (f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-32B-Instruct --reward_funcs accuracy {DATA} --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.4", "H100", "MEM003"),
        (f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-32B-Instruct --reward_funcs accuracy {DATA} --use_vllm true --vllm_mode server --vllm_server_host h", "H100", None),
    ],
)  # fmt: skip
def test_memory_floor(check: Checker, script: str, accelerator: str | None, code: str | None) -> None:
    found = {f.code for f in check(script, cluster=Cluster(accelerator, 8)) if f.code in ("MEM002", "MEM003")}
    assert found == ({code} if code else set())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", True), ("--sleep_level 1", False), ("--vllm_gpu_memory_utilization 0.4", False), ("--vllm_gpu_memory_utilization 0.85", True),
        ("--sleep_level $(pick)", False),
    ],
)  # fmt: skip
def test_engine_that_never_sleeps(check: Checker, flags: str, said: bool) -> None:
    script = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy --use_vllm true --vllm_mode colocate {flags}"
    assert ("MEM001" in codes(check, script)) is said
