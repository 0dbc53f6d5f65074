// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/render"
)

// Render is `leat render`.
func Render(s *session.Session) *cobra.Command {
	r := renderer{input: input{session: s}, format: asYAML}
	cmd := &cobra.Command{
		Use:   "render DIR | render service/NAME | render -f FILE [service/NAME] --source REPOSITORY=DIR",
		Short: "Print the objects that a folder or a service makes",
		Long: `Print the objects that a folder or a service makes, rendered on this machine with the engine of the agents.

` + inputText + `

Objects come in the order in which they are rendered: of the steps, and in each step that of its files, its kustomization
or its chart. The agent sorts them by their waves before it applies them. Tests in the folder of the service's tests come
last. Objects that name no namespace are printed without one; the agent adds the service's. Secrets of the configuration
are printed where the manifests use them, and are masked in errors and warnings.`,
		Example: `  leat render deploy/
  leat render overlays/prod --root . --config TAG=v1.4.0
  leat render charts/web --values ../values/prod.yaml --set image.tag=v1.4.0 --kube-version 1.34
  pass show shop/db | leat render deploy/ --secret DB_PASSWORD=- -o name
  leat render -f service.yaml --source charts=../charts --source deploy=.
  leat render service/shop --secret DB_PASSWORD=example`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.Fail(r.run(cmd.Context(), args)) },
	}
	r.bind(cmd)
	cmd.Flags().VarP(&r.format, "output", "o", "how to print the objects")
	cmd.Flags().BoolVar(&r.showsNotes, "notes", false, "print what the charts tell their users (NOTES.txt) to the standard error")
	return cmd
}

type renderer struct {
	input
	format     format
	showsNotes bool
}

func (r *renderer) run(ctx context.Context, args []string) error {
	result, err := r.render(ctx, args)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(r.session.Out)
	if err := r.format.write(out, result.Objects); err != nil {
		return err
	}
	if err := out.Flush(); err != nil || !r.showsNotes {
		return err
	}
	return r.writeNotes(result.Notes)
}

// writeNotes writes the notes of charts for a person, without what a terminal would obey.
func (r *renderer) writeNotes(notes []string) error {
	for _, text := range notes {
		for part := range strings.SplitSeq(text, "\n") {
			if _, err := fmt.Fprintln(r.session.Err, line(part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// format is an output format of objects.
type format string

const (
	asYAML format = "yaml"
	asJSON format = "json"
	asName format = "name"
)

func formats() []string { return []string{string(asYAML), string(asJSON), string(asName)} }

// String, Set and Type make a format a flag.
func (f *format) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *format) Set(text string) error {
	switch format(text) {
	case asYAML, asJSON, asName:
		*f = format(text)
		return nil
	default:
		return fmt.Errorf("want one of %s%s", strings.Join(formats(), ", "), document.Suggest(text, formats()))
	}
}

// Type implements pflag.Value.
func (f *format) Type() string { return strings.Join(formats(), "|") }

// write writes objects one after the other.
func (f *format) write(w io.Writer, objects []render.Object) error {
	switch *f {
	case asJSON:
		return writeJSON(w, objects)
	case asName:
		for _, o := range objects {
			if _, err := fmt.Fprintln(w, line(nameOf(o))); err != nil {
				return err
			}
		}
	case asYAML:
		for _, o := range objects {
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return fmt.Errorf("write %s: %w", nameOf(o), err)
			}
			if _, err := fmt.Fprintf(w, "---\n# Source: %s\n%s", line(o.Origin()), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeJSON writes a List, item by item.
func writeJSON(w io.Writer, objects []render.Object) error {
	if _, err := io.WriteString(w, "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": ["); err != nil {
		return err
	}
	before := "\n    "
	for _, o := range objects {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("    ", "  ")
		if err := encoder.Encode(o.Object); err != nil {
			return fmt.Errorf("write %s: %w", nameOf(o), err)
		}
		if _, err := io.WriteString(w, before+strings.TrimSuffix(text.String(), "\n")); err != nil {
			return err
		}
		before = ",\n    "
	}
	end := "\n  ]\n}\n"
	if len(objects) == 0 {
		end = "]\n}\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// nameOf returns the name of an object as kubectl prints it: deployment.apps/web.
func nameOf(o render.Object) string {
	kind := strings.ToLower(o.GroupVersionKind().GroupKind().String())
	if o.GetName() == "" {
		return kind + "/" + o.GetGenerateName() + "*"
	}
	return kind + "/" + o.GetName()
}
