// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// Project is `leat project`.
func Project(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "project [NAME]",
		Short: "Show the project that commands work in, or choose another",
		Long: `Print the project that commands work in, or have the context remember another one. A name on the command line, such as
service/shop, is one of that project; service/PROJECT/NAME is one of any project. --project chooses another one for one command.`,
		Example: `  leat project
  leat project shop
  leat get services --project default`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("want one project at most")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return s.Fail(useProject(s, args[0]))
			}
			return s.Fail(printProject(s))
		},
	}
}

func printProject(s *session.Session) error {
	endpoint, err := s.Endpoint()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, endpoint.Project)
	return err
}

func useProject(s *session.Session, project string) error {
	if err := objectname.ValidateLabel("project", project); err != nil {
		return failure.Usage("%s", err.Error())
	}
	all, err := s.Settings()
	if err != nil {
		return err
	}
	if !all.SetProject(s.ContextName(), project) {
		return failure.New("there is no context that could remember the project",
			"Make one with leat login SERVER, or set "+session.EnvProject+".")
	}
	path, err := s.ConfigPath()
	if err != nil {
		return err
	}
	if err := all.Save(path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "The project is %q now.\n", project)
	return err
}
