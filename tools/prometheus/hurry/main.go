// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Hurry prints a file of rules in which every duration is divided by a number, so that an alert that
// waits for ten minutes waits for seconds:
//
//	hurry 30 rules.yaml
//
// It reads rules and expressions with Prometheus's own parsers. Numbers stay as they are, because
// they are bounds of what is measured.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hurry:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: hurry NUMBER FILE")
	}
	by, err := strconv.Atoi(args[0])
	if err != nil || by < 1 {
		return fmt.Errorf("got %q, want a number from 1", args[0])
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	reader := parser.NewParser(parser.Options{})
	rules, errs := rulefmt.Parse(text, false, model.UTF8Validation, reader, nil)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	h := hurry(by)
	for _, group := range rules.Groups {
		for i := range group.Rules {
			rule := &group.Rules[i]
			rule.For, rule.KeepFiringFor = model.Duration(h.less(time.Duration(rule.For))), model.Duration(h.less(time.Duration(rule.KeepFiringFor)))
			expr, err := reader.ParseExpr(rule.Expr)
			if err != nil {
				return err
			}
			h.expr(expr)
			rule.Expr = expr.String()
		}
	}
	return yaml.NewEncoder(os.Stdout).Encode(rules)
}

// hurry divides durations by itself.
type hurry int

func (h hurry) less(d time.Duration) time.Duration {
	return (d / time.Duration(h)).Truncate(time.Millisecond)
}

// expr divides the durations of an expression.
func (h hurry) expr(expr parser.Expr) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			n.Range = h.less(n.Range)
		case *parser.SubqueryExpr:
			n.Range, n.Step, n.OriginalOffset = h.less(n.Range), h.less(n.Step), h.less(n.OriginalOffset)
		case *parser.VectorSelector:
			n.OriginalOffset = h.less(n.OriginalOffset)
		}
		return nil
	})
}
