// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/explain"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
)

// Explain is `leat explain`.
func Explain(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "List the parameters of a folder or service",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(explainValues(s))
	return cmd
}

// explainValues is `leat explain values`.
func explainValues(s *session.Session) *cobra.Command {
	e := explainer{input: input{session: s, rendersNothing: true}, format: show.Table}
	cmd := &cobra.Command{
		Use:   "values DIR | values service/NAME | values -f FILE [service/NAME] --source REPOSITORY=DIR",
		Short: "List the parameters and the values of charts",
		Long: `List the parameters of a folder or service, with types, defaults, and the places that define or use it: the parameters
of the service's configuration, and the values of its charts.

Parameters are the names in ${NAME} of manifests and of the options of render steps, the names after leat.config. and
configuration. in Jsonnet, CUE and Liquid, and the properties of leat.schema.json. Values are those of a chart's values.yaml
and values.schema.json, without those of the charts inside it, and where a step's files and options set them. Descriptions are printed with -o json and -o yaml.

Nothing is rendered, so a name that a template makes up is not found. Where a kustomization is built, every file of the tree
is looked at.

` + inputText,
		Example: `  leat explain values deploy/
  leat explain values charts/web -o yaml
  leat explain values service/shop`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.Fail(e.run(cmd.Context(), args)) },
	}
	e.bind(cmd)
	cmd.Flags().VarP(&e.format, "output", "o", "how to print it")
	return cmd
}

type explainer struct {
	input
	format show.Format
}

func (e *explainer) run(ctx context.Context, args []string) error {
	service, err := e.service(ctx, args)
	if err != nil {
		return failed(err)
	}
	trees, err := service.Trees(ctx, render.LimitsWithin(renderworker.Container()))
	if err != nil {
		return failed(err)
	}
	report := explain.Report{Parameters: []explain.Setting{}}
	for _, tree := range trees {
		if err := report.Tree(tree.Input, tree.Origin); err != nil {
			return failed(err)
		}
	}
	return e.write(report)
}

func (e *explainer) write(report explain.Report) error {
	switch e.format {
	case show.JSON:
		encoder := json.NewEncoder(e.session.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	case show.YAML:
		text, err := yaml.Marshal(report)
		if err != nil {
			return fmt.Errorf("write values: %w", err)
		}
		_, err = e.session.Out.Write(text)
		return err
	default:
		if len(report.Parameters)+len(report.Values) == 0 {
			_, err := fmt.Fprintln(e.session.Err, "It has neither parameters nor values of charts.")
			return err
		}
		return show.Settings(e.session.Out, e.session.Style(e.session.Out), report)
	}
}
