"""`keras-bert`: the command line. Commands import Keras and TensorFlow only when they run."""

import typer

from keras_bert_cli import (
    convert_model,
    data_service,
    distill_model,
    doctor,
    evaluate_tasks,
    export_model,
    inspect_model,
    predict_texts,
    prepare_corpus,
    pretrain_model,
    quickstart,
    search_texts,
    serve_config,
    serve_models,
    show_data,
    tokenize_text,
    train_tasks,
    verify_export,
    vocab,
)


class OneSentence(typer.core.TyperGroup):
    """Shows what is wrong with a user's input as one red line, without a traceback."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except (ValueError, ImportError, OSError) as error:
            message = str(error)
            if not message or "\n" in message:  # ours are one sentence: this is a fault of the program
                raise
            typer.secho(message, fg="red", err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=OneSentence,
    name="keras-bert",
    help="BERT for Keras 3 and TensorFlow: any checkpoint or raw text in, one self-contained, proven artifact out.",
    epilog="To begin: keras-bert quickstart",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("quickstart")(quickstart.quickstart)
app.add_typer(train_tasks.app, name="train")
app.add_typer(evaluate_tasks.app, name="evaluate")
app.command("predict")(predict_texts.predict)
app.command("index")(search_texts.index)
app.command("search")(search_texts.search)
app.command("export")(export_model.export)
app.command("verify")(verify_export.verify)
app.command("serve")(serve_models.serve)
app.command("serve-config")(serve_config.serve_config)
app.command("prepare")(prepare_corpus.prepare)
app.command("show-data")(show_data.show_data)
app.command("data-service")(data_service.data_service)
app.command("pretrain")(pretrain_model.pretrain)
app.command("distill")(distill_model.distill)
app.command("tokenize")(tokenize_text.tokenize)
app.command("vocab")(vocab.vocab)
app.command("inspect")(inspect_model.inspect)
app.command("convert")(convert_model.convert)
app.command("doctor")(doctor.doctor)
