// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeapi"
	"github.com/leatdev/leat/cli/internal/lint"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/kit/amount"
)

// Lint is `leat lint`.
func Lint(s *session.Session) *cobra.Command {
	l := linter{input: input{session: s}, format: asText}
	cmd := &cobra.Command{
		Use:   "lint DIR | lint service/NAME | lint -f FILE [service/NAME] --source REPOSITORY=DIR",
		Short: "Check the objects that a folder or a service makes",
		Long: `Check the objects that a folder or a service makes against a version of Kubernetes: unknown fields, values of a wrong type,
items of a list with equal keys, and APIs that this version does not have any more, not yet, or only as deprecated ones.
Objects of a CustomResourceDefinition are checked if it is among the objects.

The fields are those of Kubernetes ` + kubeapi.Newest.String() + `, whatever version is asked for. Required fields, ranges, patterns and rules in CEL are
not checked: leat diff asks the cluster's API server for those.

` + inputText + `

The exit code is 1 if there is an error, with --strict also if there is a warning.`,
		Example: `  leat lint deploy/
  leat lint charts/web --values values/prod.yaml --kube-version 1.34 --strict
  leat lint -f service.yaml --source deploy=. -o json
  leat lint service/shop --kube-version 1.36`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.Fail(l.run(cmd.Context(), args)) },
	}
	l.bind(cmd)
	cmd.Flags().BoolVar(&l.strict, "strict", false, "fail because of warnings, too")
	cmd.Flags().VarP(&l.format, "output", "o", "how to print the findings")
	return cmd
}

type linter struct {
	input

	strict bool
	format lintFormat
}

func (l *linter) run(ctx context.Context, args []string) error {
	result, err := l.render(ctx, args)
	if err != nil {
		return err
	}
	at, err := l.kubeVersion() // a service of a hub has its cluster's
	if err != nil {
		return err
	}
	report := lint.Check(result.Objects, at)
	for i, f := range report.Findings {
		report.Findings[i].Message = result.Mask(f.Message)
	}
	out := bufio.NewWriter(l.session.Out)
	if err := l.format.write(out, report); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if report.Count(lint.Error) > 0 || l.strict && report.Count(lint.Warning) > 0 {
		return failure.Silent(failure.ExitFailed)
	}
	return nil
}

// lintFormat is an output format of findings.
type lintFormat string

const (
	asText     lintFormat = "text"
	asFindings lintFormat = "json"
)

func lintFormats() []string { return []string{string(asText), string(asFindings)} }

// String, Set and Type make a lintFormat a flag.
func (f *lintFormat) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *lintFormat) Set(text string) error {
	switch lintFormat(text) {
	case asText, asFindings:
		*f = lintFormat(text)
		return nil
	default:
		return fmt.Errorf("want one of %s%s", strings.Join(lintFormats(), ", "), document.Suggest(text, lintFormats()))
	}
}

// Type implements pflag.Value.
func (f *lintFormat) Type() string { return strings.Join(lintFormats(), "|") }

func (f *lintFormat) write(w io.Writer, report lint.Report) error {
	if *f == asFindings {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	for _, finding := range report.Findings {
		if _, err := fmt.Fprintln(w, line(text(finding))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, summary(report))
	return err
}

// text returns a finding as one line.
func text(f lint.Finding) string {
	name := f.Name
	if f.Namespace != "" {
		name = f.Namespace + "/" + name
	}
	where := fmt.Sprintf("%s, document %d: %s: %s %s: ", f.Path, f.Document, f.Severity, f.Kind, name)
	if f.Field != "" {
		where += f.Field + ": "
	}
	return where + f.Message
}

// summary counts what was found.
func summary(report lint.Report) string {
	counts := fmt.Sprintf("%s against Kubernetes %s: %s, %s", amount.Of(report.Objects, "object"), report.KubernetesVersion,
		amount.Of(report.Count(lint.Error), "error"), amount.Of(report.Count(lint.Warning), "warning"))
	if len(report.Unchecked) == 0 {
		return counts
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(report.Unchecked)) {
		kinds = append(kinds, fmt.Sprintf("%s (%d)", line(kind), report.Unchecked[kind]))
	}
	return counts + "\nnot checked, because their definition is not among the objects: " + strings.Join(kinds, ", ")
}
