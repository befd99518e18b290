// Checks Prometheus rules (*.yaml) and Grafana dashboards (*.json) with Prometheus' own parsers: every rule as `promtool check rules`
// does, with the templates of its annotations, and every expression of a panel. Prints the metrics that they use.
//
// usage: promql-check FILE...
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// What Grafana replaces outside of strings.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h")

type checker struct {
	parser   parser.Parser
	used     map[string]bool
	recorded map[string]bool
	faults   []string
}

func main() {
	c := &checker{
		parser:   parser.NewParser(parser.Options{}),
		used:     map[string]bool{},
		recorded: map[string]bool{},
	}
	for _, file := range os.Args[1:] {
		if filepath.Ext(file) == ".json" {
			c.dashboard(file)
		} else {
			c.rules(file)
		}
	}
	for name := range c.used {
		// Names with a colon are those of recordings.
		if strings.Contains(name, ":") && !c.recorded[name] {
			c.fault("%s is recorded by no rule", name)
		}
	}
	if len(c.used) == 0 {
		c.fault("no expression was found")
	}
	if len(c.faults) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(c.faults, "\n"))
		os.Exit(1)
	}
	names := []string{}
	for name := range c.used {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Println(strings.Join(names, "\n"))
}

func (c *checker) fault(format string, arguments ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, arguments...))
}

func (c *checker) rules(file string) {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, c.parser, slog.Default())
	for _, err := range errs {
		c.fault("%v", err)
	}
	if groups == nil {
		return
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				c.recorded[rule.Record] = true
			}
			c.expression(file, rule.Expr)
		}
	}
}

func (c *checker) dashboard(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		c.fault("%v", err)
		return
	}
	var content any
	if err := json.Unmarshal(text, &content); err != nil {
		c.fault("%s: %v", file, err)
		return
	}
	c.walk(file, content)
}

// Finds the expressions of panels wherever they are.
func (c *checker) walk(file string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if text, isText := inner.(string); isText && key == "expr" {
				c.expression(file, variables.Replace(text))
			} else {
				c.walk(file, inner)
			}
		}
	case []any:
		for _, inner := range value {
			c.walk(file, inner)
		}
	}
}

func (c *checker) expression(file, text string) {
	expression, err := c.parser.ParseExpr(text)
	if err != nil {
		c.fault("%s: %s: %v", file, text, err)
		return
	}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, isSelector := node.(*parser.VectorSelector); isSelector {
			c.used[selector.Name] = true
		}
		return nil
	})
}
