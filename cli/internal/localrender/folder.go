// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localrender

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/gitcache/worktree"
)

// Folder is a folder of manifests, and how it is rendered. Paths are relative to the working
// folder.
type Folder struct {
	// Path is the folder of the manifests, and Root the folder around it that is read, too. Empty:
	// Path itself.
	Path, Root string
	// Namespace is the namespace of objects that name none. Empty: default.
	Namespace string
	// ReleaseName, ValuesFiles and Parameters are for charts.
	ReleaseName string
	ValuesFiles []string
	Parameters  map[string]string
}

// NotAChartError reports options for charts, for a folder without one.
type NotAChartError struct{ Folder string }

// Error implements error.
func (e *NotAChartError) Error() string {
	return fmt.Sprintf("%s holds no %s, and --release-name, --values and --set are for charts", e.Folder, render.ChartFile)
}

// maxValues bounds a file of values.
const maxValues = 4 << 20

// FromFolder returns the service that a folder makes. A chart lies in a folder of the tree with the
// name of its own, so that files of values can lie beside it.
func FromFolder(f Folder, settings Settings) (Service, error) {
	root, source, err := f.source()
	if err != nil {
		return Service{}, err
	}
	s := Service{
		Sources:   []Source{{Root: root, Wire: source}},
		Variables: variables(settings.Values, settings.Secrets),
		Installed: settings.Installed,
		Facts: render.Facts{
			Cluster: render.ClusterFacts{KubernetesVersion: settings.KubernetesVersion, APIVersions: settings.APIVersions},
			Service: render.ServiceFacts{Namespace: f.Namespace},
		},
	}
	if _, err := os.Stat(filepath.Join(f.Path, render.ChartFile)); err != nil {
		if f.ReleaseName != "" || len(f.ValuesFiles)+len(f.Parameters) > 0 {
			return Service{}, &NotAChartError{Folder: f.Path}
		}
		return s, nil
	}
	s.Sources[0].Mount = f.mount()
	return s, f.addChart(&s)
}

// source returns the source that selects the folder, and the folder that stands for its repository.
func (f Folder) source() (root string, source *typev1.Source, err error) {
	root, inside, err := worktree.Locate(f.Path)
	if err != nil || f.Root == "" {
		return root, &typev1.Source{Path: inside}, err
	}
	root, outer, err := worktree.Locate(f.Root)
	if err != nil {
		return "", nil, err
	}
	absolute, err := filepath.Abs(f.Path)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return "", nil, err
	}
	inside, err = filepath.Rel(root, absolute)
	if err != nil {
		return "", nil, err
	}
	if outer == "" {
		outer = "."
	}
	return root, &typev1.Source{Path: filepath.ToSlash(inside), Root: outer}, nil
}

// mount returns the name of the chart's own folder.
func (f Folder) mount() string {
	absolute, err := filepath.Abs(f.Path)
	if name := filepath.Base(absolute); err == nil && name != string(filepath.Separator) {
		return name
	}
	return "chart"
}

// addChart adds the step that renders the chart. Without options the step stays detected: a folder
// may hold a kustomization, too.
func (f Folder) addChart(s *Service) error {
	if f.ReleaseName == "" && len(f.ValuesFiles)+len(f.Parameters) == 0 {
		return nil
	}
	options := &renderstep.HelmOptions{ReleaseName: f.ReleaseName, Parameters: f.Parameters}
	s.Extra = map[string][]byte{}
	for i, file := range f.ValuesFiles {
		content, err := readBounded(file)
		if err != nil {
			return err
		}
		// The name is one for messages, and below no chart: a folder's name is not --values.
		name := path.Join("--values", fmt.Sprint(i+1), strings.ReplaceAll(filepath.Base(file), `\`, "_"))
		s.Extra[name] = content
		options.ValuesFiles = append(options.ValuesFiles, name)
	}
	s.Steps = []renderstep.Step{{Renderer: renderstep.Helm, Helm: options}}
	return renderstep.Validate("step", s.Steps)
}

func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	content, err := io.ReadAll(io.LimitReader(file, maxValues+1))
	if err == nil && len(content) > maxValues {
		err = fmt.Errorf("%s: is longer than 4 MiB, which is the limit for values", name)
	}
	return content, err
}
