// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Argocd is the parts of Argo CD that deliver an Application: it runs the one that its own name
// says. Argo CD's program does so, too, and has twice as many packages to compile.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	manifests "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"argocd-application-controller": controller.NewCommand,
		"argocd-repo-server":            manifests.NewCommand,
	}
	if err := commands[filepath.Base(os.Args[0])]().Execute(); err != nil {
		os.Exit(1) // the command has printed why
	}
}
