import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "examples/**/.next/", "**/*.d.cts"] },
  {
    files: ["src/**/*.ts", "test/**/*.ts"],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "max-lines": ["error", 300],
      "max-len": ["error", { code: 100, ignoreUrls: true }],
      "max-lines-per-function": ["error", { max: 50, skipComments: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    // A test describes one behaviour after another, and `test()` returns a promise by design.
    files: ["test/**/*.ts"],
    rules: {
      "max-lines-per-function": "off",
      "@typescript-eslint/no-floating-promises": "off",
      "@typescript-eslint/no-non-null-assertion": "off",
    },
  },
);
