// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/amount"
)

// mark begins every file of an export, so that the next one may replace it.
const mark = "# Written by leat export.\n"

// Export is `leat export`.
func Export(s *session.Session) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "export [-o DIR]",
		Short: "Export the hub's objects as a folder of documents",
		Long: `Write the objects of the hub that you may see as documents, one file each, under stable names. leat apply -f DIR on the same hub
changes nothing, and a fleet source can follow the folder.

Fields that the hub sets are left out, and so are secrets: each file names the fields that another hub has to be given again. With
--project it writes the objects of that project only. Without -o it prints all documents.

In DIR it replaces files of an earlier export, removes those whose objects are gone, and leaves all other files alone.`,
		Example: `  leat export -o fleet/
  leat export --project shop -o shop/
  leat export > fleet.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		project := ""
		if cmd.Flags().Changed("project") {
			project = s.Project()
		}
		return s.Fail(s.Call(cmd.Context(), func(ctx context.Context, c *client.Client) error { return export(ctx, s, c, project, dir) }))
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "the directory to write; it is made if it is missing")
	return cmd
}

func export(ctx context.Context, s *session.Session, c *client.Client, project, dir string) error {
	files, err := exported(ctx, c, project)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(files))
	if dir == "" {
		for i, name := range names {
			if i > 0 {
				if _, err := fmt.Fprintln(s.Out, "---"); err != nil {
					return err
				}
			}
			if _, err := s.Out.Write(files[name]); err != nil {
				return err
			}
		}
		return nil
	}
	removed, err := replace(dir, files)
	if err != nil {
		return err
	}
	withSecrets := 0
	for _, content := range files {
		if bytes.Contains(content, []byte(secretsNote)) {
			withSecrets++
		}
	}
	_, err = fmt.Fprintf(s.Out, "%s written to %s, %d removed; %d may need secrets on another hub, which their first lines name\n", amount.Of(len(files), "document"), dir, removed, withSecrets)
	return err
}

// secretsNote precedes the fields that may hold secrets.
const secretsNote = "# Secrets are not exported. Another hub needs again what this one was given of: "

// exported returns the files of an export by name.
func exported(ctx context.Context, c *client.Client, project string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, word := range document.Kinds() {
		kind, _ := document.Kind(word)
		if project != "" && !fleetdoc.InProject(kind) {
			continue
		}
		objects, err := c.All(ctx, kind, project)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			// Derived objects come with its global service.
			if isBuiltIn(object) || object.GetService().GetStatus().GetGlobalService() != "" {
				continue
			}
			content, err := contentOf(object)
			if err != nil {
				return nil, err
			}
			files[fileName(object)] = content
		}
	}
	return files, nil
}

// isBuiltIn reports whether the object is there without anybody having made it.
func isBuiltIn(object *fleetv1.Document) bool {
	project := object.GetProject().GetMetadata()
	return project.GetName() == objectname.Default && project.GetResourceVersion() == 0
}

func contentOf(object *fleetv1.Document) ([]byte, error) {
	portable, secrets := document.Portable(object)
	var content bytes.Buffer
	content.WriteString(mark)
	if len(secrets) > 0 {
		content.WriteString(secretsNote + strings.Join(secrets, ", ") + ".\n")
	}
	err := document.WriteYAML(&content, portable)
	return content.Bytes(), err
}

// fileName returns the name of an object's file: its kind and its reference. No part of either has a
// dot, so no two objects have the same.
func fileName(object *fleetv1.Document) string {
	kind, name := document.Identify(object)
	return strings.ToLower(kind) + "." + strings.NewReplacer("/", ".", `\`, ".", ":", ".").Replace(name) + ".yaml"
}

// replace writes the files into a directory, and removes files of an earlier export that it does
// not write. It replaces nothing that has another origin.
func replace(dir string, files map[string][]byte) (removed int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("make directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("open directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("read directory: %w", err)
	}
	var stale []string
	for _, entry := range entries {
		_, isNew := files[entry.Name()]
		if filepath.Ext(entry.Name()) != ".yaml" || !entry.Type().IsRegular() && !isNew {
			continue
		}
		isOurs, err := isMarked(root, entry)
		switch {
		case err != nil:
			return 0, err
		case isNew && !isOurs:
			return 0, failure.New(filepath.Join(dir, entry.Name())+" was not written by leat export", "Move it away, or export into another directory.")
		case isOurs && !isNew:
			stale = append(stale, entry.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := root.WriteFile(name, files[name], 0o644); err != nil {
			return 0, fmt.Errorf("write document: %w", err)
		}
	}
	for _, name := range stale {
		if err := root.Remove(name); err != nil {
			return 0, fmt.Errorf("remove document: %w", err)
		}
	}
	return len(stale), nil
}

// isMarked reports whether a file was written by an export.
func isMarked(root *os.Root, entry fs.DirEntry) (bool, error) {
	if !entry.Type().IsRegular() {
		return false, nil
	}
	content, err := root.ReadFile(entry.Name())
	return bytes.HasPrefix(content, []byte(mark)), err
}
