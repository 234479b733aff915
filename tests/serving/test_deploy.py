import pathlib

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"


def test_the_model_list_is_read_by_the_official_schema():
    text = (DEPLOY / "models.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert model.base_path == f"/models/{model.name}"
    assert model.model_version_policy.latest.num_versions == 2


def test_the_compose_file_names_configuration_files_that_exist():
    compose = (DEPLOY / "docker-compose.yml").read_text()
    named = [
        line.split("/config/")[1].strip() for line in compose.splitlines() if "=/config/" in line
    ]
    assert sorted(named) == ["batching.config", "models.config", "monitoring.config"]
    for name in named:
        assert (DEPLOY / name).is_file()


def test_the_model_that_the_readme_exports_is_served():
    readme = (DEPLOY.parent / "README.md").read_text("utf-8")
    text = (DEPLOY / "models.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert f"--output=saved_models/{model.name} " in readme
