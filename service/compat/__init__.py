"""Other services' wire formats, translated: same boxes, queue and limits. What each can't express: docs/compat.md.

gathering           executions that come together go together
performing          what all of them need: run a program, judge a program, or say that it can't be done now
sandboxfusion       `/run_code`        with sandboxfusion_wire (its models) and sandboxfusion_datasets (`/submit`, …)
piston              `/api/v2/execute`, with piston_versions (SemVer selectors)
answer_schemas      what the OpenAPI document says of their answers
remote_reward       reward URLs of OpenRLHF and slime, with labels (what stands in a data set's column)
"""
