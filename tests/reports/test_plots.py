"""Plots show the numbers of a report."""

from epsilog.reports import figures


def test_the_figures_of_a_report_are_its_numbers(monkeypatch):
    asked = {}

    def note(series, *, title, **options):
        asked[title] = {one.label: one.points for one in series}, options
        return title

    monkeypatch.setattr(figures, "draw_line_plot", note)
    curve = [{"round": r, "lower": low, "upper": up} for r, low, up in ((1, 0.5, 1.0), (2, 0.75, 1.5))]
    rounds = [{"round": 1, "test_loss": 1.0, "test_score": 0.25}, {"round": 2, "test_loss": None, "test_score": None}]
    bare = [{"round": 1, "test_score": 0.375}, {"round": 2, "test_score": 0.5}]
    study = [{"epsilon": 1.0, "test_score": 0.125}, {"epsilon": 4.0, "test_score": 0.25}]
    report = {
        "kind": "report",
        "accounting": {"curve": curve},
        "budget": {"epsilon": "4"},
        "rounds": rounds,
        "utility": {"baseline_rounds": bare, "study": study},
        "result": {"score_name": "R squared on the test set"},
    }
    assert set(figures.draw_report_plots(report)) == {"epsilon", "score", "study"}
    lines, options = asked["Epsilon by round"]
    assert lines == {"upper bound": ((1.0, 1.0), (2.0, 1.5)), "lower bound": ((1.0, 0.5), (2.0, 0.75))}
    assert options == {"x_label": "round", "y_label": "epsilon", "mark": ("budget", 4.0)}
    lines, options = asked["Score by round"]
    assert lines == {"with DP": ((1.0, 0.25),), "without DP": ((1.0, 0.375), (2.0, 0.5))}
    assert options == {"x_label": "round", "y_label": "R squared"}
    lines, options = asked["Score by budget"]
    assert lines == {"with DP": ((1.0, 0.125), (4.0, 0.25))}
    assert (options["mark"], options["log_x"], options["y_label"]) == (("without DP", 0.5), True, "R squared")
    bare[-1]["test_score"] = None  # the run without privacy diverged
    figures.draw_report_plots(report)
    assert asked["Score by budget"][1]["mark"] is None
    report["utility"] = None
    curve[:] = [{"round": 1, "lower": 0.0, "upper": 1.0}]
    assert set(figures.draw_report_plots(report)) == {"epsilon", "score"}
    assert set(asked["Epsilon by round"][0]) == {"upper bound"}
    assert set(asked["Score by round"][0]) == {"with DP"}
    assert figures.draw_report_plots(report | {"accounting": {"curve": []}, "rounds": []}) == {}
