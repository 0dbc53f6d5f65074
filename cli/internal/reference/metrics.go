// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/otlptranslator"
)

// Instrument is a metric of a service.
type Instrument struct {
	// Service is the deployable, or empty if all have it.
	Service string
	// Name is the instrument's name, and Prometheus its name in /metrics.
	Name       string
	Prometheus string
	// Kind is how it counts: counter, gauge, sum or histogram.
	Kind string
	// Unit is the UCUM unit.
	Unit string
	// Description describes the measured value.
	Description string
}

// kinds are the meter's methods that make instruments.
var kinds = map[string]string{
	"Counter": "counter", "ObservableCounter": "counter", "Histogram": "histogram", "Gauge": "gauge",
	"ObservableGauge": "gauge", "UpDownCounter": "sum", "ObservableUpDownCounter": "sum",
}

var (
	instrumentName = regexp.MustCompile(`^leat(\.[a-z][a-z_]*)+$`)
	unitName       = regexp.MustCompile(`^(s|By|1|\{[a-z_]+\})$`)
)

// Instruments reads the source of the services and of their shared packages, and returns their
// instruments, sorted by service and name. It recognizes instruments by their names, which are
// literals at the place where they are made.
func Instruments(source string) ([]Instrument, error) {
	var all []Instrument
	for _, root := range []string{"internal", "services"} {
		err := filepath.WalkDir(filepath.Join(source, root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := instrumentsOf(path)
			service := ""
			if rest, ok := strings.CutPrefix(filepath.ToSlash(path), filepath.ToSlash(filepath.Join(source, "services"))+"/"); ok {
				service, _, _ = strings.Cut(rest, "/")
			}
			for _, i := range found {
				i.Service = service
				all = append(all, i)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the instruments: %w", err)
		}
	}
	slices.SortFunc(all, func(a, b Instrument) int {
		return strings.Compare(a.Service+" "+a.Name, b.Service+" "+b.Name)
	})
	return all, nil
}

// instrumentsOf returns the instruments that a file makes.
func instrumentsOf(path string) ([]Instrument, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	var found []Instrument
	var errs []error
	shorthands := shorthandsOf(file)
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name, ok := text(call.Args[0])
		if !ok || !instrumentName.MatchString(name) {
			return true
		}
		kind, made := kindOf(call), call
		if short, ok := call.Fun.(*ast.Ident); ok && kind == "" && shorthands[short.Name] != nil {
			made = shorthands[short.Name]
			kind = kindOf(made)
		}
		if kind == "" {
			return true
		}
		i := Instrument{Name: name, Kind: kind}
		for _, part := range []*ast.CallExpr{made, call} {
			i.read(part)
		}
		if err := i.complete(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
		found = append(found, i)
		return true
	})
	return found, errors.Join(errs...)
}

// shorthandsOf finds functions that make instruments for their callers, by name.
func shorthandsOf(file *ast.File) map[string]*ast.CallExpr {
	found := map[string]*ast.CallExpr{}
	note := func(name string, body ast.Node) {
		ast.Inspect(body, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && kindOf(call) != "" {
				if _, literal := text(call.Args[0]); !literal {
					found[name] = call
				}
			}
			return true
		})
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			if name, ok := node.Lhs[0].(*ast.Ident); ok {
				if body, ok := node.Rhs[0].(*ast.FuncLit); ok {
					note(name.Name, body)
				}
			}
		case *ast.FuncDecl:
			if node.Body != nil {
				note(node.Name.Name, node.Body)
			}
		}
		return true
	})
	return found
}

// kindOf returns the kind of instrument that a call of a meter makes, or "" for other calls.
func kindOf(call *ast.CallExpr) string {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	for _, number := range []string{"Int64", "Float64"} {
		if rest, ok := strings.CutPrefix(method.Sel.Name, number); ok {
			return kinds[rest]
		}
	}
	return ""
}

// read reads the unit and the description, if they are literals.
func (i *Instrument) read(call *ast.CallExpr) {
	for _, arg := range call.Args {
		ast.Inspect(arg, func(node ast.Node) bool {
			if _, ok := node.(*ast.FuncLit); ok {
				return false
			}
			expr, ok := node.(ast.Expr)
			if !ok {
				return true
			}
			switch literal, ok := text(expr); {
			case !ok || literal == i.Name:
			case unitName.MatchString(literal):
				i.Unit = literal
				return false
			case strings.HasSuffix(literal, "."):
				i.Description = literal
				return false
			}
			return true
		})
	}
}

// complete sets the name in Prometheus. It fails if the page would miss something.
func (i *Instrument) complete() error {
	if i.Unit == "" || i.Description == "" {
		return fmt.Errorf("instrument %s has no unit, or no description that ends with a full stop", i.Name)
	}
	types := map[string]otlptranslator.MetricType{
		"counter": otlptranslator.MetricTypeMonotonicCounter, "gauge": otlptranslator.MetricTypeGauge,
		"sum": otlptranslator.MetricTypeNonMonotonicCounter, "histogram": otlptranslator.MetricTypeHistogram,
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, err := namer.Build(otlptranslator.Metric{Name: i.Name, Unit: i.Unit, Type: types[i.Kind]})
	if err != nil {
		return fmt.Errorf("translate %s: %w", i.Name, err)
	}
	i.Prometheus = name
	return nil
}

// text returns the value of a string literal or of concatenated ones.
func text(expr ast.Expr) (string, bool) {
	switch expr := expr.(type) {
	case *ast.BasicLit:
		if expr.Kind == token.STRING {
			value, err := strconv.Unquote(expr.Value)
			return value, err == nil
		}
	case *ast.BinaryExpr:
		left, ok := text(expr.X)
		right, ok2 := text(expr.Y)
		return left + right, ok && ok2 && expr.Op == token.ADD
	}
	return "", false
}

// metricsPage lists the instruments of every deployable.
func metricsPage(instruments []Instrument) []byte {
	var page bytes.Buffer
	page.WriteString("# Metrics\n\n" + notice)
	page.WriteString("Every service serves its metrics at `/metrics`, and exports them by OTLP if the standard `OTEL_*` variables enable it. " +
		"Beside those listed here there are `rpc.server.*` and `rpc.client.*` of OpenTelemetry's conventions for the calls between services, and " +
		"those of the Go runtime. Names of clusters, repositories and people are on spans and in logs, never on metrics. " +
		"A histogram `x` is `x_bucket`, `x_sum` and `x_count` in Prometheus. " +
		"[deploy/dashboards](../../deploy/dashboards) has dashboards for Grafana.\n")
	service := "\x00"
	for _, i := range instruments {
		if i.Service != service {
			service = i.Service
			title := cmp.Or(service, "All services")
			fmt.Fprintf(&page, "\n## %s\n\n| metric | in Prometheus | kind | unit | meaning |\n|---|---|---|---|---|\n", title)
		}
		fmt.Fprintf(&page, "| `%s` | `%s` | %s | `%s` | %s |\n", i.Name, i.Prometheus, i.Kind, i.Unit, i.Description)
	}
	return page.Bytes()
}
