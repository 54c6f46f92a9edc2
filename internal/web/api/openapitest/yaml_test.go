package openapitest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/docs"
	"go.yaml.in/yaml/v3"
)

// yamlSamples defines the allowed keys of YAML samples in all documents, for Kubernetes and
// Prometheus.
type yamlSamples struct {
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`

	ScrapeConfigs []struct {
		JobName       string `yaml:"job_name"`
		Authorization struct {
			Type            string
			CredentialsFile string `yaml:"credentials_file"`
		}
		StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
	RuleFiles []string `yaml:"rule_files"`
}

type probe struct {
	HTTPGet struct {
		Path string
		Port int
	} `yaml:"httpGet"`
}

// YAML samples in both languages parse strictly: no key is repeated, unknown, or of another type.
func TestYAMLSamples(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/*.md")
	check(t, err)
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		for _, sample := range docs.Samples(string(text)) {
			if sample.Language != "yaml" {
				continue
			}
			count++
			parser := yaml.NewDecoder(strings.NewReader(sample.Text))
			parser.KnownFields(true)
			for err = nil; err == nil; {
				err = parser.Decode(new(yamlSamples))
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s:%d: %v", page, sample.Line, err)
			}
		}
	}
	if count < 6 {
		t.Errorf("found %d samples", count)
	}
}
