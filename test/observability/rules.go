// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observability

import (
	"strconv"
	"strings"
)

// ruleFile is a file of rules, as Prometheus reads it.
type ruleFile struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

// rule records an expression, or alerts while it has values.
type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// Severities of alerts.
const (
	critical = "critical" // a person must look now
	warning  = "warning"  // a person must look today
	info     = "info"     // a person must know
)

// alert is one alert.
type alert struct {
	name, severity string
	// lasts is how long the expression must hold. Empty: not at all.
	lasts, expr string
	// summary is what is wrong, and description what to do first.
	summary, description string
}

func (a alert) rule() rule {
	return rule{
		Alert: a.name, Expr: a.expr, For: a.lasts, Labels: map[string]string{"severity": a.severity},
		Annotations: map[string]string{
			"summary": a.summary, "description": a.description, "runbook_url": runbooks + strings.ToLower(a.name),
		},
	}
}

// The objective: of the deliveries of 30 days that were not superseded, this share is healthy within
// five minutes.
const objective = 0.99

// minDeliveries is how many deliveries a window needs, before their share means anything.
const minDeliveries = 10

// windows are those over which the share of deliveries that miss the objective is recorded.
var windows = []string{"5m", "30m", "1h", "6h", "3d"}

// groups are the groups of rules.
func groups() []group {
	recorded := group{Name: "leat-delivery"}
	for _, window := range windows {
		recorded.Rules = append(recorded.Rules,
			rule{Record: "leat:delivery_ended:increase_" + window, Expr: `sum(increase(leat_delivery_outcomes_total{outcome=~"healthy|failed"}[` + window + `]))`},
			rule{Record: "leat:delivery_errors:ratio_" + window, Expr: missed(window) + "\n/\n(leat:delivery_ended:increase_" + window + " > 0)"},
		)
	}
	alerts := group{Name: "leat"}
	for _, a := range allAlerts() {
		alerts.Rules = append(alerts.Rules, a.rule())
	}
	return []group{recorded, alerts}
}

// missed counts the deliveries of a window that failed, or were healthy too late. Prometheus 3 writes
// the bound of a bucket as 300.0, and earlier versions as 300.
func missed(window string) string {
	late := `(sum(increase(leat_delivery_duration_seconds_count{leat_delivery_stage="healthy"}[` + window + `]))` +
		` - sum(increase(leat_delivery_duration_seconds_bucket{leat_delivery_stage="healthy",le=~"300(\\.0)?"}[` + window + `])))`
	return `(sum(increase(leat_delivery_outcomes_total{outcome="failed"}[` + window + `])) + (` + late + " or vector(0)))"
}

// burns is the condition that deliveries use up the error budget faster than the factor, over a long
// window and, because it may have ended, over a short one.
func burns(factor float64, long, short string) string {
	bound := " > " + strconv.FormatFloat(factor*(1-objective), 'f', 3, 64)
	return "leat:delivery_errors:ratio_" + long + bound + "\nand\nleat:delivery_errors:ratio_" + short + bound +
		"\nand\nleat:delivery_ended:increase_" + long + " >= " + strconv.Itoa(minDeliveries)
}
