// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/leatdev/leat/test/charts"
)

// packChart writes a chart as helm package does, with the release's version and the images of the
// release. source is the URL of the repository.
func (m *maker) packChart(name, source string) error {
	c, err := charts.Load(m.checkout.top, name)
	if err != nil {
		return err
	}
	c.Metadata.Version, c.Metadata.AppVersion = m.version.Number(), m.version.Number()
	// Helm writes these times, which are the times of the checkout's files.
	c.ModTime, c.SchemaModTime = m.checkout.time, m.checkout.time
	for _, files := range [][]*common.File{c.Raw, c.Templates, c.Files} {
		for _, file := range files {
			file.ModTime = m.checkout.time
		}
		slices.SortFunc(files, func(a, b *common.File) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, file := range c.Files {
		if file.Name == readmeFile {
			file.Data = abroad(file.Data, source, m.refName(), path.Join("deploy", "helm", name))
		}
	}
	packed, err := chartutil.Save(c, m.work)
	if err != nil {
		return fmt.Errorf("pack chart %s: %w", name, err)
	}
	return m.write(chartSet, fmt.Sprintf("%s-%s.tgz", name, m.version.Number()), func(w io.Writer) error {
		f, err := os.Open(packed)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(w, f)
		return err
	})
}
