// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	"github.com/leatdev/leat/internal/runtime/app"
)

func version(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this leat",
		Example: `  leat version
  leat version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			build := app.Build()
			if format == show.Table {
				_, err := fmt.Fprintln(s.Out, "leat", build)
				return s.Fail(err)
			}
			encoder := json.NewEncoder(s.Out) // a JSON object is also YAML
			encoder.SetIndent("", "  ")
			return s.Fail(encoder.Encode(struct {
				Version   string `json:"version"`
				Commit    string `json:"commit,omitempty"`
				Modified  bool   `json:"modified"`
				GoVersion string `json:"goVersion"`
			}(build)))
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	return cmd
}
