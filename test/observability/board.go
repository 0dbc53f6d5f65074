// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observability

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// board is one dashboard.
type board struct {
	// name is the file's, and part of the uid by which other dashboards link to it.
	name, title, description string
	// instances is a metric that each instance of the dashboard's variable has.
	instances string
	panels    []panel
}

// panel answers one question.
type panel struct {
	title, description string
	unit               string
	// isNow shows the current values alone, in a quarter of the width.
	isNow   bool
	queries []query
}

// query is one expression of a panel. SELECTED in it is the selection of the instances.
type query struct{ legend, expr string }

// The sizes of panels on Grafana's grid of 24 columns.
const (
	nowWidth, nowHeight     = 6, 4
	graphWidth, graphHeight = 12, 8
)

func source() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

// build returns the dashboard as Grafana loads it.
func (b board) build() (dashboard.Dashboard, error) {
	builder := dashboard.NewDashboardBuilder("Leat: "+b.title).
		Uid("leat-"+b.name).
		Description(b.description).
		Tags([]string{"leat"}).
		Editable().
		Refresh("30s").
		Time("now-3h", "now").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Leat").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"leat"}).AsDropdown(true).IncludeVars(false).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("instance").Label("Replica").Datasource(source()).
			Query(dashboard.StringOrMap{String: new("label_values(" + b.instances + ", instance)")}).
			IncludeAll(true).Multi(true).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			Current(dashboard.VariableOption{
				Text:  dashboard.StringOrArrayOfString{String: new("All")},
				Value: dashboard.StringOrArrayOfString{String: new("$__all")},
			}))
	var x, y, height uint32
	for i, p := range b.panels {
		pos := dashboard.GridPos{X: x, Y: y, W: graphWidth, H: graphHeight}
		if p.isNow {
			pos.W, pos.H = nowWidth, nowHeight
		}
		if pos.X+pos.W > 24 || i > 0 && b.panels[i-1].isNow != p.isNow {
			pos.X, pos.Y = 0, y+height
		}
		x, y, height = pos.X+pos.W, pos.Y, pos.H
		if p.isNow {
			builder.WithPanel(p.now(pos).Id(uint32(i + 1)))
		} else {
			builder.WithPanel(p.graph(pos).Id(uint32(i + 1)))
		}
	}
	return builder.Build()
}

func (p panel) graph(pos dashboard.GridPos) *timeseries.PanelBuilder {
	graph := timeseries.NewPanelBuilder().Title(p.title).Description(p.description).Unit(p.unit).Min(0).
		Datasource(source()).GridPos(pos).FillOpacity(8).LineWidth(1).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, q := range p.queries {
		graph.WithTarget(q.target(i).Range().Exemplar(strings.Contains(q.expr, "_bucket")))
	}
	return graph
}

func (p panel) now(pos dashboard.GridPos) *stat.PanelBuilder {
	now := stat.NewPanelBuilder().Title(p.title).Description(p.description).Unit(p.unit).
		Datasource(source()).GridPos(pos).ColorMode(common.BigValueColorModeNone).GraphMode(common.BigValueGraphModeArea).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	for i, q := range p.queries {
		now.WithTarget(q.target(i).Range())
	}
	return now
}

func (q query) target(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source()).
		Expr(strings.ReplaceAll(q.expr, "SELECTED", `instance=~"$instance"`)).LegendFormat(q.legend)
}

// The units of panels, as Grafana names them.
const (
	count     = "short"
	seconds   = "s"
	bytesUnit = "bytes"
	perSecond = "ops"
	requests  = "reqps"
	bandwidth = "binBps"
	ratio     = "percentunit"
)

// quantiles are the median and the 99th percentile of a histogram, by labels.
func quantiles(histogram, selector string, by ...string) []query {
	legend := ""
	for _, label := range by {
		legend += " {{" + label + "}}"
	}
	of := func(quantile string) string {
		return "histogram_quantile(" + quantile + ", sum by (" + strings.Join(append([]string{"le"}, by...), ", ") + ") (rate(" +
			histogram + "_bucket{SELECTED" + selector + "}[$__rate_interval])))"
	}
	return []query{{"p50" + legend, of("0.5")}, {"p99" + legend, of("0.99")}}
}

// rates are the rates of a counter, by labels.
func rates(counter, selector string, by ...string) []query {
	legend := make([]string, len(by))
	for i, label := range by {
		legend[i] = "{{" + label + "}}"
	}
	return []query{{strings.Join(legend, " "), "sum by (" + strings.Join(by, ", ") + ") (rate(" + counter + "{SELECTED" + selector + "}[$__rate_interval]))"}}
}

// most is the highest value of a gauge that every replica has of the whole fleet, by a label.
func most(gauge, by string) []query {
	return []query{{"{{" + by + "}}", "max by (" + by + ") (" + gauge + "{SELECTED})"}}
}

// sums are the sums of a gauge that each replica has of its own, by labels.
func sums(gauge string, by ...string) []query {
	legend := make([]string, len(by))
	for i, label := range by {
		legend[i] = "{{" + label + "}}"
	}
	return []query{{strings.Join(legend, " "), "sum by (" + strings.Join(by, ", ") + ") (" + gauge + "{SELECTED})"}}
}
